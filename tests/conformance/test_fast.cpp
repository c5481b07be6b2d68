// The fast path against the scalar reference, for every instruction set that this machine runs.
#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "codec_kit.hpp"
#include "fast_kernels.hpp"
#include "golden.hpp"
#include "verify_internal.hpp"

using namespace codec_kit;
using gift::Element;
namespace fast = gift::fast;
namespace golden = gift::golden;
namespace ref = gift::ref;

namespace {

/// Numbers of all exponents and all kinds; deterministic.
Floats mixed_bits(std::size_t count, std::uint64_t seed) {
  Floats x(count);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& v : x) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    v = from_bits(static_cast<std::uint32_t>(state >> 16));
  }
  return x;
}

Floats moderate(std::size_t count, std::uint64_t seed) {
  Floats x = mixed_bits(count, seed);
  for (float& v : x) v = from_bits((bits(v) & 0x87ffffffu) | 0x38000000u);  // 2^-15 to 2^1
  return x;
}

}  // namespace

TEST_CASE("fast conversions equal the reference at every border and for random bits", "[fast]") {
  REQUIRE(fast::available_kernels().size() >= 1);
  for (const fast::Kernels* k : fast::available_kernels()) {
    for (const Element element : {Element::e4m3, Element::e5m2, Element::e2m1}) {
      Floats in = mixed_bits(200001, 3);
      for (const golden::Interval& i : golden::intervals(element)) {
        for (const std::uint32_t b : {i.lowest, i.highest})
          in.insert(in.end(), {from_bits(b - 1), from_bits(b), from_bits(b + 1)});
      }
      std::vector<std::uint16_t> expected(in.size()), got(in.size(), 0xa5a5);
      ref::convert_values(element, gift::Rounding::rne, {}, 0, in, expected);
      const auto convert = element == Element::e4m3   ? k->convert_e4m3
                           : element == Element::e5m2 ? k->convert_e5m2
                                                      : k->convert_e2m1;
      convert(in.data(), static_cast<std::int64_t>(in.size()), got.data());
      INFO(k->name << " " << golden::element_name(element));
      CHECK(got == expected);
    }
  }
}

TEST_CASE("fast encode and decode equal the reference: bytes, counters, numbers", "[fast]") {
  for (const std::string& format : nearest_formats()) {
    for (const std::int64_t cols : {1, 15, 16, 17, 128, 129, 300}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const auto count = static_cast<std::size_t>(5 * cols);
        round_trip(format, {5, cols, moderate(count, seed)});
        // All kinds of numbers: NaN and Inf too. Decoded NaNs differ in nothing that matters, so only bytes are compared.
        const Matrix wild{5, cols, mixed_bits(count, seed)};
        const Encoded expected = encode(paths()[0], format, wild);
        for (const Path& path : paths()) {
          INFO(path.name << " " << format << " 5 x " << cols << " seed " << seed);
          const Encoded got = encode(path, format, wild);
          CHECK(got.payload == expected.payload);
          CHECK(got.counts == expected.counts);
        }
      }
    }
  }
}

TEST_CASE("adversarial blocks: amaxes and elements next to where their code changes, scales by the formula", "[fast]") {
  const float one_sixth = 0x1.555556p-3f;  // 1/6 rounded to FP32
  std::uint64_t near_borders = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Matrix m{64, 130, gift::verification::filled(64, 130, gift::verification::Fill::midpoints, seed)};
    for (const char* format : {"nvfp4", "e4m3:row", "e4m3", "mxfp8"}) round_trip(format, m);
    // The block scales once more, from SPEC section 5's formula and the golden table.
    const Encoded e = encode(paths()[0], "nvfp4", m);
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const float* row = m.x.data() + i * m.cols;
      const float s = 2688.0f / ref::finite_amax(row, m.cols);
      for (std::int64_t b = 0; b < 9; ++b) {
        const float amax = ref::finite_amax(row + 16 * b, std::min<std::int64_t>(16, m.cols - 16 * b));
        const float wanted = amax * (s * one_sixth);
        const auto table = golden::intervals(Element::e4m3);
        CHECK(e.block_scale(i * 9 + b) == golden::expected_code(Element::e4m3, table, bits(wanted)));
        // Does the last place of 1/6 matter here? Then this block would notice a wrong one.
        const float wrong = amax * (s * from_bits(bits(one_sixth) - 1));
        near_borders += golden::expected_code(Element::e4m3, table, bits(wrong)) != e.block_scale(i * 9 + b) ? 1 : 0;
      }
    }
  }
  CHECK(near_borders > 100);
}

TEST_CASE("fast decode equals the reference for any bytes", "[fast]") {
  for (const std::string& format : nearest_formats()) {
    Encoded e = encode(paths()[0], format, columns(37, moderate(5 * 37, 1)));
    std::uint32_t state = 1;
    for (std::byte& b : e.payload) b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
    const Floats expected = [&] {
      Floats x(5 * 37);
      paths()[0].decode(e.format, e.layout, e.payload.data(), 0, 5, x.data());
      return x;
    }();
    for (const Path& path : paths()) {
      Floats x(5 * 37);
      path.decode(e.format, e.layout, e.payload.data(), 0, 5, x.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        INFO(path.name << " " << format << " element " << i);
        CHECK((bits(x[i]) == bits(expected[i]) || (std::isnan(x[i]) && std::isnan(expected[i]))));
      }
    }
  }
}

TEST_CASE("fast amax skips NaN and Inf wherever they stand", "[fast]") {
  for (const fast::Kernels* k : fast::available_kernels()) {
    for (std::size_t n = 0; n <= 70; ++n) {
      Floats x = mixed_bits(n, n + 1);
      CHECK(k->amax_bits(x.data(), static_cast<std::int64_t>(n)) ==
            bits(ref::finite_amax(x.data(), static_cast<std::int64_t>(n))));
    }
  }
}
