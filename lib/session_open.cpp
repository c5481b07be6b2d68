// Do all ranks hold the same plan? Fingerprints first; if they differ, rank 0 and the first rank that differs show what they
// hold, so that the error names the tensor and the value and not just a hash.
#include <string_view>

#include "session_body.hpp"

namespace gift {

void put_u32(std::byte* out, std::uint32_t value) noexcept {
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}
void put_u64(std::byte* out, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}
std::uint32_t get_u32(const std::byte* in) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(in[i]) << (8 * i);
  return value;
}
std::uint64_t get_u64(const std::byte* in) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(in[i]) << (8 * i);
  return value;
}

Result<std::vector<std::byte>> gather_records(Transport& transport, ConstBytes mine) {
  const auto size = static_cast<std::size_t>(transport.size());
  std::vector<std::byte> all(mine.size() * size);
  std::vector<Bytes> recv;
  for (std::size_t k = 0; k < size; ++k) recv.push_back(Bytes(all).subspan(k * mine.size(), mine.size()));
  if (Status s = transport.all_gather(mine, recv); !s.ok()) return s;
  return all;
}

namespace {

constexpr std::size_t fingerprint_bytes = 64;
constexpr std::size_t description_limit = std::size_t{64} << 20;

std::vector<std::byte> write_fingerprint(const Fingerprint& f) {
  std::vector<std::byte> out(fingerprint_bytes);
  put_u32(out.data(), f.protocol);
  put_u32(out.data() + 4, f.code);
  const std::uint64_t words[] = {f.tensors, f.elements, f.shapes, f.formats, f.recipe, f.basis, f.step};
  for (std::size_t i = 0; i < 7; ++i) put_u64(out.data() + 8 + 8 * i, words[i]);
  return out;
}

Fingerprint read_fingerprint(const std::byte* in) {
  Fingerprint f;
  f.protocol = get_u32(in);
  f.code = get_u32(in + 4);
  std::uint64_t* words[] = {&f.tensors, &f.elements, &f.shapes, &f.formats, &f.recipe, &f.basis, &f.step};
  for (std::size_t i = 0; i < 7; ++i) *words[i] = get_u64(in + 8 + 8 * i);
  return f;
}

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

/// The first field that differs, as "WHAT is VALUE, rank 0 has VALUE". `in_tensors`: the tensors' descriptions will say it
/// better.
std::string difference(const Fingerprint& got, const Fingerprint& rank0, bool& in_tensors) {
  const struct {
    const char* what;
    std::uint64_t got, rank0;
    bool hash, in_tensors;
  } fields[] = {{"protocol version", got.protocol, rank0.protocol, false, false},
                {"version of libgift", got.code, rank0.code, false, false},
                {"shapes (hash)", got.shapes, rank0.shapes, true, true},
                {"number of tensors", got.tensors, rank0.tensors, false, false},
                {"number of elements", got.elements, rank0.elements, false, false},
                {"formats (hash)", got.formats, rank0.formats, true, true},
                {"basis hash", got.basis, rank0.basis, true, true},
                {"recipe (hash)", got.recipe, rank0.recipe, true, false},
                {"step", got.step, rank0.step, false, false}};
  for (const auto& f : fields) {
    if (f.got == f.rank0) continue;
    in_tensors = f.in_tensors;
    const auto text = [&f](std::uint64_t value) { return f.hash ? hex(value) : std::to_string(value); };
    return std::string(f.what) + " is " + text(f.got) + ", rank 0 has " + text(f.rank0);
  }
  return {};
}

/// One line a tensor, fields "name<tab>value" separated by tabs; the first is the tensor's name.
std::string describe(const Plan& plan) {
  std::string text;
  const auto field = [&text](const char* name, const std::string& value) {
    text += '\t';
    text += name;
    text += '\t';
    text += value;
  };
  for (const TensorPlan& t : plan.tensors()) {
    std::string shape = "[";
    for (std::size_t i = 0; i < t.shape.size(); ++i) shape += (i ? ", " : "") + std::to_string(t.shape[i]);
    for (const char c : t.name) text += c == '\t' || c == '\n' ? ' ' : c;
    field("shape", shape + "]");
    field("dtype", dtype_name(t.dtype));
    field("matrix", std::to_string(t.rows) + " x " + std::to_string(t.cols));
    field("format", to_string(t.format));
    field("geometry", geometry_name(t.geometry.kind));
    field("side", side_name(t.geometry.side));
    field("right rank", std::to_string(t.rank_right()));
    field("left rank", std::to_string(t.rank_left()));
    field("hadamard block", std::to_string(t.geometry.hadamard_block));
    field("exponent", std::to_string(t.geometry.exponent));
    field("damping", std::to_string(t.geometry.damping));
    field("error feedback", t.error_feedback ? "on" : "off");
    field("exempt", t.exempt ? "yes" : "no");
    field("op", t.op == ReduceOp::mean ? "mean" : "sum");
    field("basis", t.basis ? to_string(t.basis->hash) : "none");
    text += '\n';
  }
  return text;
}

std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

/// "tensor 'fc1': format is e5m2, rank 0 has e4m3" for the first difference of two descriptions; empty if there is none.
std::string first_difference(std::string_view got, std::string_view rank0) {
  while (!got.empty() || !rank0.empty()) {
    std::string_view mine = take(got, '\n'), theirs = take(rank0, '\n');
    if (mine == theirs) continue;
    const std::string name(take(mine, '\t')), expected(take(theirs, '\t'));
    if (name != expected)
      return (name.empty() ? "has no more tensors" : "has tensor '" + name + "'") + std::string(" where rank 0 has ") +
             (expected.empty() ? "none" : "'" + expected + "'");
    while (!mine.empty()) {
      const std::string field(take(mine, '\t'));
      take(theirs, '\t');
      const std::string value(take(mine, '\t')), wanted(take(theirs, '\t'));
      if (value != wanted) return "tensor '" + name + "': " + field + " is " + value + ", rank 0 has " + wanted;
    }
  }
  return {};
}

/// Rank 0 and rank `other` send their descriptions to all, which then find the same first difference.
Result<std::string> compare_descriptions(Transport& transport, const Plan& plan, std::size_t other) {
  const auto size = static_cast<std::size_t>(transport.size()), rank = static_cast<std::size_t>(transport.rank());
  const std::string mine = rank == 0 || rank == other ? describe(plan) : std::string();
  std::vector<std::byte> length(8);
  put_u64(length.data(), mine.size());
  const Result<std::vector<std::byte>> lengths = gather_records(transport, length);
  if (!lengths.ok()) return lengths.status();
  std::vector<std::string> texts(size);
  for (std::size_t k = 0; k < size; ++k)
    if (get_u64(lengths->data() + 8 * k) > description_limit) return std::string();  // known to all: nobody sends
  std::vector<Bytes> recv;
  for (std::size_t k = 0; k < size; ++k) {
    texts[k].resize(get_u64(lengths->data() + 8 * k));
    recv.push_back(std::as_writable_bytes(std::span(texts[k])));
  }
  if (Status s = transport.all_gather(std::as_bytes(std::span(mine)), recv); !s.ok()) return s;
  return first_difference(texts[other], texts[0]);
}

}  // namespace

Status compare_plans(Transport& transport, const Plan& plan, std::uint64_t step) {
  const Result<std::vector<std::byte>> all = gather_records(transport, write_fingerprint(plan.fingerprint(step)));
  if (!all.ok()) return all.status();
  const Fingerprint rank0 = read_fingerprint(all->data());
  for (std::size_t k = 1; k < static_cast<std::size_t>(transport.size()); ++k) {
    bool in_tensors = false;
    std::string text = difference(read_fingerprint(all->data() + k * fingerprint_bytes), rank0, in_tensors);
    if (text.empty()) continue;
    if (in_tensors) {
      const Result<std::string> detail = compare_descriptions(transport, plan, k);
      if (!detail.ok()) return detail.status();
      if (!detail->empty()) text = detail.value();
    }
    return {Code::mismatch, "rank " + std::to_string(k) + ": " + text};
  }
  return {};
}

}  // namespace gift
