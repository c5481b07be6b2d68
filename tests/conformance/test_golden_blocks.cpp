// Whole encoded matrices against those that numpy made from the formulas: every format, granularity and rounding.
#include <map>

#include "catch.hpp"
#include "codec_kit.hpp"

using namespace codec_kit;

namespace {

struct Input {
  const char* name;
  std::int64_t rows, cols;
  const char* hex;
};
const Input inputs[] = {
#include "block_inputs.inc"
};

struct Encoding {
  const char* format;
  const char* input;
  const char* payload;
  const char* decoded;
};
const Encoding encodings[] = {
#include "block_encodings.inc"
};

constexpr std::int64_t golden_first_row = 5;

std::vector<std::uint32_t> words(const Bytes& bytes) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 4; ++k) word |= std::to_integer<std::uint32_t>(bytes[i + k]) << (8 * k);
    all.push_back(word);
  }
  return all;
}

Matrix matrix(const char* name) {
  for (const Input& in : inputs) {
    if (std::string(in.name) != name) continue;
    Matrix m{in.rows, in.cols, {}};
    for (const std::uint32_t w : words(bytes_from_hex(in.hex))) m.x.push_back(from_bits(w));
    return m;
  }
  FAIL("no input " << name);
  return {};
}

/// The first byte that differs, or -1.
std::int64_t first_difference(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return static_cast<std::int64_t>(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("golden encodings: every byte of every payload, every bit of every decoded number", "[golden]") {
  std::map<std::string, int> seen;
  for (const Path& path : paths()) {
    for (const Encoding& golden : encodings) {
      INFO(path.name << " " << golden.format << " of " << golden.input);
      const Encoded e = encode(path, golden.format, matrix(golden.input), golden_first_row);
      CHECK(first_difference(e.payload, bytes_from_hex(golden.payload)) == -1);
      std::vector<std::uint32_t> decoded = bits_of(decode(path, e));
      for (std::uint32_t& b : decoded) b = (b & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : b;
      CHECK(decoded == words(bytes_from_hex(golden.decoded)));
      ++seen[golden.format];
    }
  }
  // Nothing was left out: each format with each input on each path.
  CHECK(seen.size() >= 25);
  for (const auto& [format, count] : seen) CHECK(count == static_cast<int>(std::size(inputs) * paths().size()));
  for (const std::string& format : nearest_formats()) CHECK(seen.count(format) == 1);
}

TEST_CASE("negative control: a spoilt golden byte is a difference", "[golden]") {
  const Encoding& golden = encodings[std::size(encodings) / 2];
  Bytes spoilt = bytes_from_hex(golden.payload);
  const Encoded e = encode(paths()[0], golden.format, matrix(golden.input), golden_first_row);
  REQUIRE(first_difference(e.payload, spoilt) == -1);
  spoilt[0] ^= std::byte{1};
  CHECK(first_difference(e.payload, spoilt) == 0);
  // Another key, step or row gives other stochastic codes: the golden ones do hold the draw.
  const Matrix m = matrix("odd_columns");
  const Encoded base = encode(paths()[0], "e4m3:sr", m, golden_first_row);
  CHECK(encode(paths()[0], "e4m3:sr", m, golden_first_row + 1).payload != base.payload);
}
