// Errors that travel in packet headers: how they arise from two headers, and the one line that every rank makes of them.
#include <array>

#include "packet.hpp"

namespace gift {
namespace {

const char* field_name(Field field) noexcept {
  switch (field) {
    case Field::none:
      return "";
    case Field::step:
      return "step";
    case Field::tensor_id:
      return "tensor id";
    case Field::sender:
      return "sender";
    case Field::world:
      return "world size";
    case Field::shard:
      return "shard";
    case Field::rows:
      return "rows";
    case Field::cols:
      return "columns";
    case Field::row_begin:
      return "first row of the shard";
    case Field::row_end:
      return "end row of the shard";
    case Field::format:
      return "format";
    case Field::granularity:
      return "scale granularity";
    case Field::block:
      return "scale block";
    case Field::rounding:
      return "rounding";
    case Field::mx_scale:
      return "MX scale mode";
    case Field::geometry:
      return "geometry";
    case Field::side:
      return "side";
    case Field::rank_right:
      return "right rank of the basis";
    case Field::rank_left:
      return "left rank of the basis";
    case Field::basis:
      return "basis hash";
    case Field::payload_bytes:
      return "payload bytes";
    case Field::leg:
      return "leg";
    case Field::header_bytes:
      return "header";
    case Field::payload_hash:
      return "payload";
    case Field::buffer_count:
      return "buffer elements";
    case Field::buffer_null:
      return "buffer";
    case Field::buffer_twice:
      return "buffer";
    case Field::buffer_tensor:
      return "tensor index";
    case Field::pending:
      return "call";
  }
  return "unknown field";
}

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

const char* granularity_name(std::uint64_t value) noexcept {
  constexpr std::array<const char*, 4> names = {"none", "tensor", "row", "block"};
  return value < names.size() ? names[value] : "unknown";
}

std::string value_text(Field field, std::uint64_t value) {
  switch (field) {
    case Field::format:
      return format_name(static_cast<Format>(value));
    case Field::geometry:
      return geometry_name(static_cast<GeometryKind>(value));
    case Field::side:
      return side_name(static_cast<Side>(value));
    case Field::granularity:
      return granularity_name(value);
    case Field::rounding:
      return value == 0 ? "rne" : "sr";
    case Field::mx_scale:
      return value == 0 ? "ceil" : "floor";
    case Field::basis:
      return hex(value);
    case Field::buffer_count:
      return std::to_string(static_cast<std::int64_t>(value));
    default:
      return std::to_string(value);
  }
}

std::uint64_t first_eight_bytes(const Hash128& hash) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = value << 8 | hash.bytes[i];
  return value;
}

}  // namespace

WireError compare_header(const PacketHeader& got, const PacketHeader& expected) {
  const auto u = [](auto value) { return static_cast<std::uint64_t>(value); };
  const struct {
    Field field;
    std::uint64_t got, expected;
  } fields[] = {
      {Field::step, got.step, expected.step},
      {Field::tensor_id, got.tensor_id, expected.tensor_id},
      {Field::leg, got.leg, expected.leg},
      {Field::sender, got.sender, expected.sender},
      {Field::world, got.world, expected.world},
      {Field::shard, got.shard, expected.shard},
      {Field::rows, u(got.rows), u(expected.rows)},
      {Field::cols, u(got.cols), u(expected.cols)},
      {Field::row_begin, u(got.row_begin), u(expected.row_begin)},
      {Field::row_end, u(got.row_end), u(expected.row_end)},
      {Field::format, u(got.format.format), u(expected.format.format)},
      {Field::granularity, u(got.format.granularity), u(expected.format.granularity)},
      {Field::block, u(got.format.block), u(expected.format.block)},
      {Field::rounding, u(got.format.rounding), u(expected.format.rounding)},
      {Field::mx_scale, u(got.format.mx_scale), u(expected.format.mx_scale)},
      {Field::geometry, u(got.geometry), u(expected.geometry)},
      {Field::side, u(got.side), u(expected.side)},
      {Field::rank_right, u(got.rank_right), u(expected.rank_right)},
      {Field::rank_left, u(got.rank_left), u(expected.rank_left)},
      {Field::basis, first_eight_bytes(got.basis), first_eight_bytes(expected.basis)},
      {Field::payload_bytes, got.payload_bytes, expected.payload_bytes},
  };
  for (const auto& f : fields)
    if (f.got != f.expected) return {Code::mismatch, f.field, got.sender, f.got, f.expected};
  if (!(got.basis == expected.basis))  // the same first half and another second one
    return {Code::mismatch, Field::basis, got.sender, first_eight_bytes(got.basis), first_eight_bytes(expected.basis)};
  return {};
}

Status to_status(const WireError& error, const TensorPlan& tensor) {
  if (error.code == Code::ok) return {};
  const std::string rank = "rank " + std::to_string(error.rank);
  const std::string where = rank + ": " + (tensor.name.empty() ? "" : tensor.name + ": ");
  const std::string value = value_text(error.field, error.value), expected = value_text(error.field, error.expected);
  std::string text;
  switch (error.field) {
    case Field::none:
      text = where + code_name(error.code) + " on that rank";
      break;
    case Field::header_bytes:
      text = where + "packet from this rank has a damaged header";
      break;
    case Field::payload_hash:
      text = where + "packet from this rank fails its checksum";
      break;
    case Field::buffer_count:
      text = where + "buffer has " + value + " elements, expected " + expected;
      break;
    case Field::buffer_null:
      text = where + "buffer is null";
      break;
    case Field::buffer_twice:
      text = where + "given twice in one reduce";
      break;
    case Field::buffer_tensor:
      text = rank + ": tensor index " + std::to_string(static_cast<std::int64_t>(error.value)) + ", the plan has " + expected +
             " tensors";
      break;
    case Field::pending:
      text = rank + ": reduce called before wait";
      break;
    default:
      text = where + field_name(error.field) + " is " + value + ", rank 0 has " + expected;
      break;
  }
  return {error.code, text};
}

}  // namespace gift
