// Philox against its published vectors, and stochastic rounding: probabilities, independence, ends.
#include <cfloat>
#include <cmath>

#include "catch.hpp"
#include "codec_kit.hpp"

using namespace codec_kit;
using gift::Element;
using gift::Rounding;
using gift::RoundingKey;
namespace ref = gift::ref;

namespace {

constexpr std::uint64_t draws = 1000000;

/// Which of `draws` copies of x went up (1) or down (0).
std::vector<std::uint8_t> ups(Element element, float x, const RoundingKey& key) {
  const std::vector<float> in(draws, x);
  std::vector<std::uint16_t> out(draws);
  ref::convert_values(element, Rounding::sr, key, 0, in, out);
  const std::uint16_t low = ref::convert_one(element, Rounding::sr, x, 0xffffffffu);
  std::vector<std::uint8_t> up(draws);
  bool neighbours_only = true;
  for (std::size_t i = 0; i < draws; ++i) {
    neighbours_only = neighbours_only && (out[i] == low || out[i] == low + 1);
    up[i] = out[i] == low ? 0 : 1;
  }
  REQUIRE(neighbours_only);
  return up;
}

double mean(const std::vector<std::uint8_t>& bits01) {
  double sum = 0;
  for (const std::uint8_t b : bits01) sum += b;
  return sum / static_cast<double>(bits01.size());
}

/// Correlation of two equally long 0/1 sequences, `lag` apart.
double correlation(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b, std::size_t lag) {
  const double ma = mean(a), mb = mean(b);
  double sum = 0;
  for (std::size_t i = 0; i + lag < a.size(); ++i) sum += (a[i] - ma) * (b[i + lag] - mb);
  return sum / static_cast<double>(a.size() - lag) / std::sqrt(ma * (1 - ma) * mb * (1 - mb));
}

const double four_sigma_correlation = 4 / std::sqrt(static_cast<double>(draws));

}  // namespace

TEST_CASE("Philox4x32-10 gives the published words", "[stochastic]") {
  // Known answers of Random123 (kat_vectors, philox4x32 10).
  const struct {
    std::uint32_t counter[4];
    std::uint64_t key;
    std::uint32_t words[4];
  } known[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
      {{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
       0xffffffffffffffffu,
       {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
      {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
       0x299f31d0a4093822u,
       {0xd16cfe09u, 0x94fdcceb, 0x5001e420u, 0x24126ea1u}},
  };
  for (const auto& k : known) {
    std::uint32_t out[4];
    ref::philox4x32(k.counter, k.key, out);
    for (int i = 0; i < 4; ++i) CHECK(out[i] == k.words[i]);
  }
}

TEST_CASE("the word of an element: counter layout, every field in its place", "[stochastic]") {
  const RoundingKey key{.seed = 0xfedcba9876543210u, .tensor_id = 0x11223344u, .sender = 5, .step = 17};
  const std::uint64_t index = (std::uint64_t{0xabcd} << 34) + 4u * 12345u + 2u;
  const std::uint32_t counter[4] = {12345u, 0xabcdu | (1u << 16), 0x11223344u ^ (5u * 0x9E3779B9u), 17u};
  std::uint32_t words[4];
  ref::philox4x32(counter, key.seed, words);
  CHECK(ref::random_word(key, ref::Stage::owner, index) == words[2]);
  CHECK(ref::random_word(key, ref::Stage::owner, index + 1) == words[3]);
  CHECK(ref::random_word(key, ref::Stage::sender, index) != words[2]);
}

TEST_CASE("a quarter of the way to the next code goes up a quarter of the time", "[stochastic]") {
  const struct {
    Element element;
    float x;
    double fraction;
  } cases[] = {
      {Element::e4m3, 1.0f + 0.125f / 4, 0.25},
      {Element::e4m3, -(1.0f + 0.125f / 4), 0.25},
      {Element::e4m3, 0x1p-9f * 5.75f, 0.75},
      {Element::e5m2, 1.0f + 0.25f / 4, 0.25},
      {Element::e5m2, 0x1p-16f / 4, 0.25},
      {Element::e2m1, 0.5f + 0.125f, 0.25},
      {Element::e2m1, 4.5f, 0.25},
      {Element::bf16, 1.0f + 0x1p-9f, 0.25},
  };
  for (const auto& c : cases) {
    INFO(static_cast<int>(c.element) << " " << c.x);
    const double sigma = std::sqrt(c.fraction * (1 - c.fraction) / static_cast<double>(draws));
    CHECK(std::fabs(mean(ups(c.element, c.x, golden_key())) - c.fraction) < 4 * sigma);
  }
}

TEST_CASE("draws of neighbours, steps, ranks, tensors and stages are independent", "[stochastic]") {
  const float x = 1.0f + 0.125f / 4;
  const RoundingKey key = golden_key();
  const auto base = ups(Element::e4m3, x, key);
  for (const std::size_t lag : {1u, 2u, 3u, 4u, 5u, 16u, 32u, 128u})
    CHECK(std::fabs(correlation(base, base, lag)) < four_sigma_correlation);
  RoundingKey step = key, sender = key, tensor = key, seed = key;
  ++step.step;
  ++sender.sender;
  ++tensor.tensor_id;
  ++seed.seed;
  for (const RoundingKey& other : {step, sender, tensor, seed}) {
    const auto drawn = ups(Element::e4m3, x, other);
    CHECK(drawn != base);
    CHECK(std::fabs(correlation(base, drawn, 0)) < four_sigma_correlation);
  }
  // Negative control of the measure: a sequence is fully correlated with itself.
  CHECK(correlation(base, base, 0) == Approx(1.0));
  // Repeatable, and the same however the elements are cut into calls.
  CHECK(ups(Element::e4m3, x, key) == base);
  const std::vector<float> in(33, x);
  std::vector<std::uint16_t> whole(33), parts(33);
  ref::convert_values(Element::e4m3, Rounding::sr, key, 7, in, whole);
  ref::convert_values(Element::e4m3, Rounding::sr, key, 7, std::span(in).first(10), std::span(parts).first(10));
  ref::convert_values(Element::e4m3, Rounding::sr, key, 17, std::span(in).subspan(10), std::span(parts).subspan(10));
  CHECK(whole == parts);
}

TEST_CASE("the threshold is floor(frac * 2^32), for every E4M3 interval and both signs", "[stochastic]") {
  for (int c = 0; c < 0x7e; ++c) {
    const double low = ref::from_e4m3(static_cast<std::uint8_t>(c)), high = ref::from_e4m3(static_cast<std::uint8_t>(c + 1));
    for (const double frac : {1 / 1024.0, 0.25, 0.5, 1023 / 1024.0}) {
      const auto x = static_cast<float>(low + frac * (high - low));  // exact
      const auto threshold = static_cast<std::uint32_t>(frac * 0x1p32);
      CHECK(ref::to_e4m3_sr(x, threshold - 1) == c + 1);
      CHECK(ref::to_e4m3_sr(x, threshold) == c);
      CHECK(ref::to_e4m3_sr(-x, threshold - 1) == (c + 1) + 128);
      CHECK(ref::to_e4m3_sr(-x, threshold) == c + 128);
    }
    CHECK(ref::to_e4m3_sr(static_cast<float>(low), 0) == c);  // a code never moves
  }
  // Far below the smallest code: frac * 2^32 below 1 never rounds away; the limit is 2^-9 * 2^-32.
  CHECK(ref::to_e4m3_sr(0x1p-41f, 0) == 1);
  CHECK(ref::to_e4m3_sr(std::nextafter(0x1p-41f, 0.0f), 0) == 0);
  CHECK(ref::to_e4m3_sr(from_bits(1), 0) == 0);
}

TEST_CASE("stochastic rounding clamps at the largest code", "[stochastic]") {
  for (const std::uint32_t word : {0u, 0x7fffffffu, 0xffffffffu}) {
    CHECK(ref::to_e4m3_sr(448.0f, word) == 0x7e);
    CHECK(ref::to_e4m3_sr(470.0f, word) == 0x7e);
    CHECK(ref::to_e4m3_sr(-FLT_MAX, word) == 0xfe);
    CHECK(ref::to_e5m2_sr(60000.0f, word) == 0x7b);
    CHECK(ref::to_e2m1_sr(6.5f, word) == 7);
    CHECK(ref::to_e2m1_sr(-INFINITY, word) == 15);
    CHECK(ref::to_bf16_sr(FLT_MAX, word) == 0x7f7f);
  }
}

TEST_CASE("with sr, nvfp4's block scale is never below what its block needs", "[stochastic]") {
  for (int k = 0; k < 2000; ++k) {
    const float x = 1e-3f * static_cast<float>(k);
    const float b = ref::from_e4m3(ref::to_e4m3_up(x));
    CHECK(b >= x);
    const std::uint8_t code = ref::to_e4m3_up(x);
    if (code > 0) CHECK(ref::from_e4m3(static_cast<std::uint8_t>(code - 1)) < x);
  }
  CHECK(ref::to_e4m3_up(449.0f) == 0x7e);
  CHECK(ref::to_e4m3_up(1e-30f) == 1);
  CHECK(ref::to_e4m3_up(0.0f) == 0);
}

TEST_CASE("the mean of many stochastic encodings is the number itself, block maxima included", "[stochastic]") {
  Floats x(33);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(std::sin(1.0 + static_cast<double>(j)));
  for (const std::string format : {"e4m3:row:sr", "nvfp4:sr", "mxfp4:sr", "bf16:sr"}) {
    constexpr int times = 4000;
    std::vector<double> sum(x.size(), 0), squares(x.size(), 0);
    for (int t = 0; t < times; ++t) {
      RoundingKey key = golden_key();
      key.step = static_cast<std::uint32_t>(t);
      const Encoded e = encode(paths()[0], format, row_of(x), 0, key);
      const Floats d = decode(paths()[0], e);
      for (std::size_t j = 0; j < x.size(); ++j) sum[j] += d[j], squares[j] += double{d[j]} * d[j];
    }
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double m = sum[j] / times, variance = std::max(0.0, squares[j] / times - m * m);
      INFO(format << " element " << j << " x " << x[j] << " mean " << m);
      // Five standard errors for 33 elements (the variance of a draw that was hardly ever seen is not 0), and the FP32 roundings.
      CHECK(std::fabs(m - x[j]) < 5 * std::sqrt((variance + 0.25 / times) / times) + 3e-7);
    }
  }
}
