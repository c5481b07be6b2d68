// Encode and decode between guards; see codec_kit.hpp.
#include "codec_kit.hpp"

#include <algorithm>
#include <cstring>

#include "catch.hpp"
#include "fast_kernels.hpp"

namespace codec_kit {
namespace {

constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard{0xa5};

/// `count` bytes of `poison` with guards on both sides.
Bytes guarded(std::size_t count, std::byte poison) {
  Bytes buffer(count + 2 * guard_bytes, guard);
  std::fill_n(buffer.begin() + guard_bytes, count, poison);
  return buffer;
}

bool guards_intact(const Bytes& buffer) {
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (buffer[i] != guard || buffer[buffer.size() - 1 - i] != guard) return false;
  }
  return true;
}

Bytes inside(const Bytes& buffer) { return Bytes(buffer.begin() + guard_bytes, buffer.end() - guard_bytes); }

/// Decodes rows [begin, end) into a guarded buffer whose elements start as NaNs of an unlikely payload.
Floats decode_rows(const Path& path, const Encoded& e, std::int64_t begin, std::int64_t end) {
  const auto count = static_cast<std::size_t>((end - begin) * e.layout.cols);
  Bytes buffer = guarded(count * sizeof(float), std::byte{0xff});
  path.decode(e.format, e.layout, e.payload.data(), begin, end, reinterpret_cast<float*>(buffer.data() + guard_bytes));
  REQUIRE(guards_intact(buffer));
  Floats x(count);
  if (count > 0) std::memcpy(x.data(), buffer.data() + guard_bytes, count * sizeof(float));
  // The poison is a NaN that no decoder makes: none may be left.
  REQUIRE(std::none_of(x.begin(), x.end(), [](float value) { return bits(value) == 0xffffffffu; }));
  return x;
}

}  // namespace

const std::vector<Path>& paths() {
  static const std::vector<Path> all = [] {
    std::vector<Path> list = {{"ref", gift::ref::encode_elements, gift::ref::decode_elements}};
    for (const gift::fast::Kernels* k : gift::fast::available_kernels()) {
      const auto encode = [k](const gift::FormatSpec& format, const gift::ElementLayout& layout, const float* x,
                              std::int64_t first_row, float tensor_amax, const gift::RoundingKey& key, gift::ref::Stage stage,
                              std::byte* out, gift::ref::ElementCounts* counts) {
        gift::fast::encode_with(*k, format, layout, x, first_row, tensor_amax, key, stage, out, counts);
      };
      const auto decode = [k](const gift::FormatSpec& format, const gift::ElementLayout& layout, const std::byte* in,
                              std::int64_t row_begin, std::int64_t row_end,
                              float* x) { gift::fast::decode_with(*k, format, layout, in, row_begin, row_end, x); };
      list.push_back({k->name, encode, decode});
    }
    return list;
  }();
  return all;
}

Matrix row_of(Floats x) {
  const auto cols = static_cast<std::int64_t>(x.size());
  return {1, cols, std::move(x)};
}

Matrix columns(std::int64_t cols, Floats x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / cols;
  REQUIRE(rows * cols == static_cast<std::int64_t>(x.size()));
  return {rows, cols, std::move(x)};
}

float Encoded::fp32_scale(std::int64_t i) const {
  float value = 0;
  std::memcpy(&value, payload.data() + layout.fp32_scale_offset + 4 * i, sizeof value);
  return value;
}
unsigned Encoded::block_scale(std::int64_t i) const {
  return std::to_integer<unsigned>(payload.at(layout.block_scale_offset + i));
}
unsigned Encoded::code_byte(std::int64_t row, std::int64_t byte) const {
  return std::to_integer<unsigned>(payload.at(layout.code_offset + row * layout.code_row_bytes + byte));
}
std::vector<unsigned> Encoded::code_bytes(std::int64_t row) const {
  std::vector<unsigned> all;
  for (std::int64_t i = 0; i < layout.code_row_bytes; ++i) all.push_back(code_byte(row, i));
  return all;
}

gift::RoundingKey golden_key() { return {.seed = 0x0123456789abcdefu, .tensor_id = 77, .sender = 3, .step = 9}; }

Encoded encode(const Path& path, const std::string& format, const Matrix& m, std::int64_t first_row, gift::RoundingKey key) {
  Encoded e;
  e.format = gift::parse_format(format).value();
  e.layout = gift::element_layout(e.format, m.rows, m.cols).value();
  const Floats before = m.x;
  const float amax = gift::ref::finite_amax(m.x.data(), static_cast<std::int64_t>(m.x.size()));
  Bytes first, second;
  for (const std::byte poison : {std::byte{0xee}, std::byte{0x11}}) {
    Bytes buffer = guarded(static_cast<std::size_t>(e.layout.total_bytes), poison);
    e.counts = {};
    path.encode(e.format, e.layout, m.x.data(), first_row, amax, key, gift::ref::Stage::sender, buffer.data() + guard_bytes,
                &e.counts);
    INFO(path.name << " " << format << " " << m.rows << " x " << m.cols);
    REQUIRE(guards_intact(buffer));
    (poison == std::byte{0xee} ? first : second) = inside(buffer);
  }
  INFO(path.name << " " << format << " " << m.rows << " x " << m.cols << ": a byte was left unwritten");
  REQUIRE(first == second);
  REQUIRE(bits_of(before) == bits_of(m.x));
  e.payload = first;
  return e;
}

Floats decode(const Path& path, const Encoded& e) {
  const Floats all = decode_rows(path, e, 0, e.layout.rows);
  Floats by_row;
  for (std::int64_t i = 0; i < e.layout.rows; ++i) {
    const Floats row = decode_rows(path, e, i, i + 1);
    by_row.insert(by_row.end(), row.begin(), row.end());
  }
  REQUIRE(bits_of(all) == bits_of(by_row));
  return all;
}

Floats round_trip(const std::string& format, const Matrix& m) {
  const Encoded expected = encode(paths()[0], format, m);
  const Floats decoded = decode(paths()[0], expected);
  for (const Path& path : paths()) {
    INFO(path.name << " " << format);
    const Encoded got = encode(path, format, m);
    REQUIRE(got.payload == expected.payload);
    REQUIRE(got.counts == expected.counts);
    REQUIRE(bits_of(decode(path, expected)) == bits_of(decoded));
  }
  return decoded;
}

std::vector<std::uint32_t> bits_of(const Floats& x) {
  std::vector<std::uint32_t> all;
  all.reserve(x.size());
  for (const float value : x) all.push_back(bits(value));
  return all;
}

const std::vector<std::string>& nearest_formats() {
  static const std::vector<std::string> all = {"fp32",          "bf16",         "e4m3",         "e4m3:row", "e4m3:tensor",
                                               "e4m3:block:16", "e4m3:block:5", "e5m2",         "e5m2:row", "e5m2:tensor",
                                               "e5m2:block:16", "nvfp4",        "nvfp4:tensor", "mxfp8",    "mxfp8:floor",
                                               "mxfp4",         "mxfp4:floor"};
  return all;
}

const std::vector<std::string>& stochastic_formats() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const std::string& format : nearest_formats()) {
      if (format != "fp32") list.push_back(format + ":sr");
    }
    return list;
  }();
  return all;
}

Bytes bytes_from_hex(const std::string& hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  Bytes all;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    all.push_back(static_cast<std::byte>(16 * digit(hex[i]) + digit(hex[i + 1])));
  return all;
}

gift::Status ElementsOnly::convert(gift::Element element, gift::Rounding rounding, const gift::RoundingKey& key,
                                   std::uint64_t first_index, std::span<const float> in, std::span<std::uint16_t> out) const {
  gift::ref::convert_values(element, rounding, key, first_index, in, out);
  for (std::size_t i = 0; spoil_ && i < in.size(); ++i) out[i] = spoil_(element, in[i], out[i]);
  return gift::Status();
}

gift::Status ElementsOnly::expand(gift::Element element, std::span<const std::uint16_t> in, std::span<float> out) const {
  gift::ref::expand_codes(element, in, out);
  return gift::Status();
}

}  // namespace codec_kit
