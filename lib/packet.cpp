// Packet headers: written little-endian, byte by byte, and parsed as if whoever sent them meant harm.
#include "packet.hpp"

#include <limits>

namespace gift {
namespace {

// Offsets of the header's fields. What lies between the last field and the checksum is zero and checked to be.
enum Offset : std::size_t {
  at_magic = 0,
  at_version = 4,
  at_flags = 6,
  at_leg = 8,
  at_format = 9,
  at_granularity = 10,
  at_rounding = 11,
  at_mx_scale = 12,
  at_geometry = 13,
  at_side = 14,
  at_zero_1 = 15,
  at_tensor_id = 16,
  at_sender = 20,
  at_world = 24,
  at_shard = 28,
  at_block = 32,
  at_rank_right = 36,
  at_rank_left = 40,
  at_non_finite_rank = 44,
  at_step = 48,
  at_rows = 56,
  at_cols = 64,
  at_row_begin = 72,
  at_row_end = 80,
  at_basis = 88,
  at_error_code = 104,
  at_error_field = 105,
  at_zero_2 = 106,
  at_error_rank = 108,
  at_error_value = 112,
  at_error_expected = 120,
  at_payload_bytes = 128,
  at_payload_hash = 136,
  at_zero_3 = 144,
  at_checksum = 184,
};
static_assert(at_checksum + 8 == packet_header_bytes);

template <class T>
void put(std::byte* out, std::size_t offset, T value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) out[offset + i] = static_cast<std::byte>(bits >> (8 * i));
}

template <class T>
T get(const std::byte* in, std::size_t offset) noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) bits |= std::to_integer<std::uint64_t>(in[offset + i]) << (8 * i);
  return static_cast<T>(bits);
}

Status bad(const std::string& what) { return {Code::bad_packet, "packet header: " + what}; }

bool all_zero(const std::byte* in, std::size_t begin, std::size_t end) noexcept {
  for (std::size_t i = begin; i < end; ++i)
    if (in[i] != std::byte{0}) return false;
  return true;
}

/// Bytes become enums only after this.
Status check_enums(const std::byte* in) {
  const struct {
    const char* name;
    std::size_t offset;
    unsigned largest;
  } ranges[] = {{"format", at_format, static_cast<unsigned>(Format::mxfp4)},
                {"granularity", at_granularity, static_cast<unsigned>(Granularity::block)},
                {"rounding", at_rounding, static_cast<unsigned>(Rounding::sr)},
                {"scale mode", at_mx_scale, static_cast<unsigned>(MxScale::floor)},
                {"geometry", at_geometry, static_cast<unsigned>(GeometryKind::deflate)},
                {"side", at_side, static_cast<unsigned>(Side::both)},
                {"error code", at_error_code, static_cast<unsigned>(Code::internal)},
                {"error field", at_error_field, static_cast<unsigned>(Field::pending)}};
  for (const auto& range : ranges) {
    const unsigned value = std::to_integer<unsigned>(in[range.offset]);
    if (value > range.largest)
      return bad(std::string(range.name) + " is " + std::to_string(value) + ", largest known " + std::to_string(range.largest));
  }
  return {};
}

Status check_sizes(const PacketHeader& h) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (h.leg != 1 && h.leg != 2) return bad("leg is " + std::to_string(h.leg));
  if (h.flags & ~(flag_non_finite | flag_error | flag_non_zero)) return bad("unknown flags " + std::to_string(h.flags));
  if (h.world == 0 || h.world > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max()))
    return bad("world is " + std::to_string(h.world));
  if (h.sender >= h.world) return bad("sender " + std::to_string(h.sender) + " of " + std::to_string(h.world));
  if (h.shard >= h.world) return bad("shard " + std::to_string(h.shard) + " of " + std::to_string(h.world));
  if (h.error.rank >= h.world) return bad("error rank " + std::to_string(h.error.rank) + " of " + std::to_string(h.world));
  if (h.non_finite_rank < -1 || h.non_finite_rank >= static_cast<std::int64_t>(h.world))
    return bad("non-finite rank " + std::to_string(h.non_finite_rank));
  if (h.rows < 0 || h.cols < 0 || (h.cols > 0 && h.rows > most / h.cols))
    return bad("shape " + std::to_string(h.rows) + " x " + std::to_string(h.cols));
  if (h.row_begin < 0 || h.row_end < h.row_begin || h.row_end > h.rows)
    return bad("rows " + std::to_string(h.row_begin) + " to " + std::to_string(h.row_end) + " of " + std::to_string(h.rows));
  if (h.format.block < 0) return bad("block is " + std::to_string(h.format.block));
  if (h.rank_right < 0 || h.rank_right > h.cols) return bad("right rank is " + std::to_string(h.rank_right));
  if (h.rank_left < 0 || h.rank_left > h.rows) return bad("left rank is " + std::to_string(h.rank_left));
  if (h.payload_bytes > static_cast<std::uint64_t>(most - packet_header_bytes))
    return bad("payload of " + std::to_string(h.payload_bytes) + " bytes");
  return {};
}

PacketHeader read_fields(const std::byte* in) {
  PacketHeader h;
  h.flags = get<std::uint16_t>(in, at_flags);
  h.leg = get<std::uint8_t>(in, at_leg);
  h.format.format = static_cast<Format>(get<std::uint8_t>(in, at_format));
  h.format.granularity = static_cast<Granularity>(get<std::uint8_t>(in, at_granularity));
  h.format.rounding = static_cast<Rounding>(get<std::uint8_t>(in, at_rounding));
  h.format.mx_scale = static_cast<MxScale>(get<std::uint8_t>(in, at_mx_scale));
  h.format.block = get<std::int32_t>(in, at_block);
  h.geometry = static_cast<GeometryKind>(get<std::uint8_t>(in, at_geometry));
  h.side = static_cast<Side>(get<std::uint8_t>(in, at_side));
  h.tensor_id = get<std::uint32_t>(in, at_tensor_id);
  h.sender = get<std::uint32_t>(in, at_sender);
  h.world = get<std::uint32_t>(in, at_world);
  h.shard = get<std::uint32_t>(in, at_shard);
  h.rank_right = get<std::int32_t>(in, at_rank_right);
  h.rank_left = get<std::int32_t>(in, at_rank_left);
  h.non_finite_rank = get<std::int32_t>(in, at_non_finite_rank);
  h.step = get<std::uint64_t>(in, at_step);
  h.rows = get<std::int64_t>(in, at_rows);
  h.cols = get<std::int64_t>(in, at_cols);
  h.row_begin = get<std::int64_t>(in, at_row_begin);
  h.row_end = get<std::int64_t>(in, at_row_end);
  for (std::size_t i = 0; i < h.basis.bytes.size(); ++i) h.basis.bytes[i] = get<std::uint8_t>(in, at_basis + i);
  h.error.code = static_cast<Code>(get<std::uint8_t>(in, at_error_code));
  h.error.field = static_cast<Field>(get<std::uint8_t>(in, at_error_field));
  h.error.rank = get<std::uint32_t>(in, at_error_rank);
  h.error.value = get<std::uint64_t>(in, at_error_value);
  h.error.expected = get<std::uint64_t>(in, at_error_expected);
  h.payload_bytes = get<std::uint64_t>(in, at_payload_bytes);
  h.payload_hash = get<std::uint64_t>(in, at_payload_hash);
  return h;
}

}  // namespace

PacketHeader expected_header(const TensorPlan& tensor, int leg, int sender, int shard, std::uint64_t step) {
  const PayloadLayout& layout = (leg == 1 ? tensor.leg1 : tensor.leg2)[static_cast<std::size_t>(shard)];
  PacketHeader h;
  h.leg = static_cast<std::uint8_t>(leg);
  h.tensor_id = tensor.id;
  h.sender = static_cast<std::uint32_t>(sender);
  h.world = static_cast<std::uint32_t>(tensor.world);
  h.shard = static_cast<std::uint32_t>(shard);
  h.step = step;
  h.rows = tensor.rows;
  h.cols = tensor.cols;
  h.row_begin = layout.row_begin;
  h.row_end = layout.row_end;
  h.format = tensor.format;
  h.geometry = tensor.geometry.kind;
  h.side = tensor.geometry.side;
  h.rank_right = tensor.rank_right();
  h.rank_left = tensor.rank_left();
  if (tensor.basis) h.basis = tensor.basis->hash;
  h.payload_bytes = static_cast<std::uint64_t>(layout.total_bytes);
  return h;
}

void write_header(const PacketHeader& h, std::byte* out) {
  for (std::int64_t i = 0; i < packet_header_bytes; ++i) out[i] = std::byte{0};
  put(out, at_magic, packet_magic);
  put(out, at_version, packet_version);
  put(out, at_flags, h.flags);
  put(out, at_leg, h.leg);
  put(out, at_format, static_cast<std::uint8_t>(h.format.format));
  put(out, at_granularity, static_cast<std::uint8_t>(h.format.granularity));
  put(out, at_rounding, static_cast<std::uint8_t>(h.format.rounding));
  put(out, at_mx_scale, static_cast<std::uint8_t>(h.format.mx_scale));
  put(out, at_block, h.format.block);
  put(out, at_geometry, static_cast<std::uint8_t>(h.geometry));
  put(out, at_side, static_cast<std::uint8_t>(h.side));
  put(out, at_tensor_id, h.tensor_id);
  put(out, at_sender, h.sender);
  put(out, at_world, h.world);
  put(out, at_shard, h.shard);
  put(out, at_rank_right, h.rank_right);
  put(out, at_rank_left, h.rank_left);
  put(out, at_non_finite_rank, h.non_finite_rank);
  put(out, at_step, h.step);
  put(out, at_rows, h.rows);
  put(out, at_cols, h.cols);
  put(out, at_row_begin, h.row_begin);
  put(out, at_row_end, h.row_end);
  for (std::size_t i = 0; i < h.basis.bytes.size(); ++i) put(out, at_basis + i, h.basis.bytes[i]);
  put(out, at_error_code, static_cast<std::uint8_t>(h.error.code));
  put(out, at_error_field, static_cast<std::uint8_t>(h.error.field));
  put(out, at_error_rank, h.error.rank);
  put(out, at_error_value, h.error.value);
  put(out, at_error_expected, h.error.expected);
  put(out, at_payload_bytes, h.payload_bytes);
  put(out, at_payload_hash, h.payload_hash);
  put(out, at_checksum, xxh3_64(ConstBytes(out, at_checksum)));
}

Result<PacketHeader> parse_header(ConstBytes bytes) {
  if (bytes.size() < static_cast<std::size_t>(packet_header_bytes))
    return bad(std::to_string(bytes.size()) + " bytes, a header has " + std::to_string(packet_header_bytes));
  const std::byte* in = bytes.data();
  if (get<std::uint32_t>(in, at_magic) != packet_magic) return bad("no packet of libgift (wrong magic number)");
  const auto version = get<std::uint16_t>(in, at_version);
  if (version != packet_version)
    return bad("version " + std::to_string(version) + ", this library reads " + std::to_string(packet_version));
  if (get<std::uint64_t>(in, at_checksum) != xxh3_64(bytes.first(at_checksum))) return bad("checksum differs");
  if (!all_zero(in, at_zero_1, at_tensor_id) || !all_zero(in, at_zero_2, at_error_rank) || !all_zero(in, at_zero_3, at_checksum))
    return bad("reserved bytes are not zero");
  if (Status s = check_enums(in); !s.ok()) return s;
  PacketHeader header = read_fields(in);
  if (Status s = check_sizes(header); !s.ok()) return s;
  return header;
}

Result<PacketHeader> parse_packet(ConstBytes bytes, ConstBytes& payload) {
  payload = {};
  Result<PacketHeader> header = parse_header(bytes);
  if (!header.ok()) return header;
  const ConstBytes rest = bytes.subspan(static_cast<std::size_t>(packet_header_bytes));
  if (header->payload_bytes != rest.size())
    return Status(Code::bad_packet, "packet: header says " + std::to_string(header->payload_bytes) + " payload bytes, " +
                                        std::to_string(rest.size()) + " are there");
  if (header->payload_hash != xxh3_64(rest)) return Status(Code::bad_packet, "packet: checksum of the payload differs");
  payload = rest;
  return header;
}

}  // namespace gift
