// The arguments of one reduce: which tensors take part, what is wrong with them, and whether all ranks mean the same ones.
#include <algorithm>

#include "session_body.hpp"

namespace gift {
namespace {

/// What ranks compare before they reduce a part of the plan. 64 bytes: protocol u32, tensors u32, step u64, hash of their ids
/// u64, elements u64, then an error if the rank has one: code u8, field u8, 2 zero bytes, tensor index + 1 u32 (0: none), value
/// u64, expected u64, 8 zero bytes.
constexpr std::size_t record_bytes = 64;

struct CallRecord {
  std::uint32_t protocol = 0, tensors = 0;
  std::uint64_t step = 0, ids = 0, elements = 0;
  WireError error;
  std::uint32_t tensor = 0;
};

std::vector<std::byte> write_record(const CallRecord& r) {
  std::vector<std::byte> out(record_bytes);
  put_u32(out.data(), r.protocol);
  put_u32(out.data() + 4, r.tensors);
  put_u64(out.data() + 8, r.step);
  put_u64(out.data() + 16, r.ids);
  put_u64(out.data() + 24, r.elements);
  out[32] = static_cast<std::byte>(r.error.code);
  out[33] = static_cast<std::byte>(r.error.field);
  put_u32(out.data() + 36, r.tensor);
  put_u64(out.data() + 40, r.error.value);
  put_u64(out.data() + 48, r.error.expected);
  return out;
}

CallRecord read_record(const std::byte* in) {
  CallRecord r;
  r.protocol = get_u32(in);
  r.tensors = get_u32(in + 4);
  r.step = get_u64(in + 8);
  r.ids = get_u64(in + 16);
  r.elements = get_u64(in + 24);
  const auto code = std::to_integer<unsigned>(in[32]), field = std::to_integer<unsigned>(in[33]);
  r.error.code = code <= static_cast<unsigned>(Code::internal) ? static_cast<Code>(code) : Code::bad_packet;
  r.error.field = field <= static_cast<unsigned>(Field::pending) ? static_cast<Field>(field) : Field::none;
  r.tensor = get_u32(in + 36);
  r.error.value = get_u64(in + 40);
  r.error.expected = get_u64(in + 48);
  return r;
}

std::string difference(const CallRecord& got, const CallRecord& rank0) {
  const auto line = [](const char* what, std::uint64_t value, std::uint64_t expected) {
    return std::string(what) + " " + std::to_string(value) + ", rank 0 has " + std::to_string(expected);
  };
  if (got.protocol != rank0.protocol) return line("protocol", got.protocol, rank0.protocol);
  if (got.step != rank0.step) return line("step", got.step, rank0.step);
  if (got.tensors != rank0.tensors) return line("tensors to reduce:", got.tensors, rank0.tensors);
  if (got.elements != rank0.elements) return line("elements to reduce:", got.elements, rank0.elements);
  if (got.ids != rank0.ids) return "reduces other tensors than rank 0";
  return {};
}

}  // namespace

/// Fills `items` in the order of the plan. What is wrong goes to the item it is about (to the first one if it is about none), and
/// `refused` is set.
void Session::Body::take_arguments(std::span<const TensorBuffer> buffers) {
  const std::vector<TensorPlan>& tensors = plan.tensors();
  const bool all = buffers.size() == tensors.size();
  std::vector<Item> found(tensors.size());
  std::vector<char> listed(tensors.size(), all ? 1 : 0), given(tensors.size(), 0);
  stray = {};
  refused = false;
  const auto error = [this](Field field, std::int64_t value, std::int64_t expected) {
    refused = true;
    return WireError{Code::invalid_argument, field, static_cast<std::uint32_t>(rank()), static_cast<std::uint64_t>(value),
                     static_cast<std::uint64_t>(expected)};
  };
  for (const TensorBuffer& buffer : buffers) {
    if (buffer.tensor < 0 || buffer.tensor >= static_cast<std::int64_t>(tensors.size())) {
      stray = error(Field::buffer_tensor, buffer.tensor, static_cast<std::int64_t>(tensors.size()));
      continue;
    }
    const auto index = static_cast<std::size_t>(buffer.tensor);
    const std::int64_t elements = tensors[index].elements();
    Item& item = found[index];
    if (given[index])
      item.error = error(Field::buffer_twice, buffer.tensor, 0);
    else if (buffer.count != elements)
      item.error = error(Field::buffer_count, buffer.count, elements);
    else if (!buffer.data && elements > 0)
      item.error = error(Field::buffer_null, 0, 0);
    item.data = buffer.data;
    listed[index] = given[index] = 1;
  }
  items.clear();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!listed[i]) continue;
    found[i].tensor = i;
    items.push_back(found[i]);
  }
  if (stray.code != Code::ok && !items.empty() && items[0].error.code == Code::ok) items[0].error = stray;
}

/// A call for a part of the plan: lists are compared before anything is sent, and a rank's own error is told here.
Status Session::Body::compare_calls() {
  CallRecord mine;
  mine.protocol = packet_version;
  mine.tensors = static_cast<std::uint32_t>(items.size());
  mine.step = step;
  std::vector<std::byte> ids(4 * items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    put_u32(ids.data() + 4 * i, tensor(items[i]).id);
    mine.elements += static_cast<std::uint64_t>(tensor(items[i]).elements());
    if (items[i].error.code == Code::ok || mine.error.code != Code::ok) continue;
    mine.error = items[i].error;
    mine.tensor = static_cast<std::uint32_t>(items[i].tensor + 1);
  }
  mine.ids = xxh3_64(ids);
  if (mine.error.code == Code::ok) mine.error = stray;

  const Result<std::vector<std::byte>> all = gather_records(transport, write_record(mine));
  if (!all.ok()) return close(all.status());
  const CallRecord rank0 = read_record(all->data());
  for (std::size_t k = 0; k < world(); ++k) {
    CallRecord theirs = read_record(all->data() + k * record_bytes);
    theirs.error.rank = static_cast<std::uint32_t>(k);
    if (theirs.error.code != Code::ok) {
      const bool known = theirs.tensor > 0 && theirs.tensor <= plan.tensors().size();
      return to_status(theirs.error, known ? plan.tensors()[theirs.tensor - 1] : TensorPlan());
    }
    if (const std::string text = difference(theirs, rank0); !text.empty())
      return {Code::mismatch, "rank " + std::to_string(k) + ": " + text};
  }
  return {};
}

}  // namespace gift
