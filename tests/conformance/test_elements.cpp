// Single conversions against tables that ml_dtypes made, and the rules that SPEC section 5 states one by one.
#include <cfloat>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "codec_kit.hpp"
#include "golden.hpp"

using namespace codec_kit;
using gift::Element;
using gift::Rounding;
namespace golden = gift::golden;
namespace ref = gift::ref;

namespace {

constexpr Element tabled[] = {Element::e4m3, Element::e5m2, Element::e2m1};

/// Borders of all intervals, one ulp on both sides, every 16-bit prefix with the tails that round differently.
std::vector<std::uint32_t> probing_bits(Element element) {
  std::vector<std::uint32_t> all;
  for (const golden::Interval& i : golden::intervals(element)) {
    for (const std::uint32_t b : {i.lowest, i.highest}) all.insert(all.end(), {b - 1, b, b + 1});
  }
  for (std::uint32_t prefix = 0; prefix <= 0xffffu; ++prefix) {
    for (const std::uint32_t tail : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) all.push_back((prefix << 16) | tail);
  }
  return all;
}

golden::Tally check(const gift::Backend& backend, Element element) {
  golden::Tally tally;
  REQUIRE(golden::check_values(backend, element, golden::intervals(element), probing_bits(element), tally).ok());
  return tally;
}

std::uint16_t code_of(Element element, float x) { return ref::convert_one(element, Rounding::rne, x, 0); }

}  // namespace

TEST_CASE("interval tables are complete: every FP32 number that is not a NaN lies in exactly one interval", "[elements]") {
  for (const Element element : tabled) {
    const auto table = golden::intervals(element);
    const std::size_t half = table.size() / 2;
    REQUIRE(table[0].lowest == 0);
    REQUIRE(table[half].lowest == 0x80000000u);
    REQUIRE(table[half - 1].highest == 0x7f800000u);
    REQUIRE(table[table.size() - 1].highest == 0xff800000u);
    for (std::size_t i = 0; i + 1 < table.size(); ++i) {
      if (i + 1 != half) REQUIRE(table[i + 1].lowest == table[i].highest + 1);
      REQUIRE(table[i].lowest <= table[i].highest);
    }
  }
}

TEST_CASE("every border of every code rounds as ml_dtypes says", "[elements]") {
  for (const Element element : tabled) {
    const golden::Tally tally = check(ElementsOnly(), element);
    INFO(golden::element_name(element) << ": " << tally.first);
    CHECK(tally.different == 0);
    CHECK(tally.compared > 390000);
  }
}

TEST_CASE("negative control: one wrong code, one wrong border, one wrong table entry are noticed", "[elements]") {
  const ElementsOnly wrong_once(
      [](Element, float x, std::uint16_t code) { return x == 1.0625f ? std::uint16_t(code + 1) : code; });
  const golden::Tally noticed = check(wrong_once, Element::e4m3);
  CHECK(noticed.different >= 1);
  CHECK(noticed.first.find("1.0625") != std::string::npos);

  std::vector<golden::Interval> table(golden::intervals(Element::e5m2).begin(), golden::intervals(Element::e5m2).end());
  std::swap(table[40].code, table[41].code);
  golden::Tally tally;
  const std::vector<std::uint32_t> bits = probing_bits(Element::e5m2);
  REQUIRE(golden::check_values(ElementsOnly(), Element::e5m2, table, bits, tally).ok());
  CHECK(tally.different > 0);

  golden::Tally range;
  REQUIRE(golden::check_range(wrong_once, Element::e4m3, bits_of({1.0625f})[0] - 10, bits_of({1.0625f})[0], 0x38, range).ok());
  CHECK(range.compared == 11);
  CHECK(range.different == 1);

  std::vector<golden::Value> values(golden::values(Element::e4m3).begin(), golden::values(Element::e4m3).end());
  values[3].bits ^= 1u;
  golden::Tally decoded;
  REQUIRE(golden::check_decode(ElementsOnly(), Element::e4m3, values, decoded).ok());
  CHECK(decoded.different == 1);
}

TEST_CASE("every code decodes to its value and encodes to itself", "[elements]") {
  for (const Element element : {Element::e4m3, Element::e5m2, Element::e2m1, Element::e8m0}) {
    golden::Tally tally;
    REQUIRE(golden::check_decode(ElementsOnly(), element, golden::values(element), tally).ok());
    INFO(golden::element_name(element) << ": " << tally.first);
    CHECK(tally.different == 0);
    CHECK(tally.compared == (element == Element::e2m1 ? 16 : 256));
    for (const golden::Value& v : golden::values(element)) {
      const float value = from_bits(v.bits);
      if (std::isfinite(value)) CHECK(code_of(element, value) == v.code);
    }
  }
}

TEST_CASE("which codes are finite: E4M3 has no Inf and two NaNs, E5M2 two Infs and six NaNs, E2M1 and E8M0 their own",
          "[elements]") {
  const auto count = [](Element element, int codes, auto predicate) {
    int n = 0;
    for (int c = 0; c < codes; ++c) n += predicate(ref::expand_one(element, static_cast<std::uint16_t>(c))) ? 1 : 0;
    return n;
  };
  const auto nan = [](float x) { return std::isnan(x); };
  const auto inf = [](float x) { return std::isinf(x); };
  CHECK(count(Element::e4m3, 256, nan) == 2);
  CHECK(count(Element::e4m3, 256, inf) == 0);
  CHECK(count(Element::e5m2, 256, nan) == 6);
  CHECK(count(Element::e5m2, 256, inf) == 2);
  CHECK(count(Element::e2m1, 16, nan) == 0);
  CHECK(count(Element::e2m1, 16, inf) == 0);
  CHECK(count(Element::e8m0, 256, nan) == 1);
  CHECK(count(Element::e8m0, 256, inf) == 0);
  CHECK(std::isnan(ref::from_e4m3(0x7f)));
  CHECK(std::isnan(ref::from_e4m3(0xff)));
  CHECK(std::isinf(ref::from_e5m2(0x7c)));
  CHECK(ref::from_e5m2(0xfc) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("between neighbouring codes: the nearer one, the even one at the middle", "[elements]") {
  for (const Element element : tabled) {
    const int codes = element == Element::e2m1 ? 8 : 128;
    for (int c = 0; c + 1 < codes; ++c) {
      const float low = ref::expand_one(element, static_cast<std::uint16_t>(c));
      const float high = ref::expand_one(element, static_cast<std::uint16_t>(c + 1));
      if (!std::isfinite(high)) break;
      const auto middle = static_cast<float>((double{low} + double{high}) / 2);  // exact in FP32
      INFO(golden::element_name(element) << " code " << c);
      CHECK(code_of(element, middle) == (c % 2 == 0 ? c : c + 1));
      CHECK(code_of(element, std::nextafter(middle, 0.0f)) == c);
      CHECK(code_of(element, std::nextafter(middle, FLT_MAX)) == c + 1);
      CHECK(code_of(element, -middle) == (c % 2 == 0 ? c : c + 1) + codes);
    }
  }
}

TEST_CASE("E2M1 ties and packing values of the contract", "[elements]") {
  const struct {
    float x, value;
  } ties[] = {{.25f, 0}, {.75f, 1}, {1.25f, 1}, {1.75f, 2}, {2.5f, 2}, {3.5f, 4}, {5, 4}, {7, 6}, {6.5f, 6}, {100, 6}};
  for (const auto& t : ties) CHECK(ref::from_e2m1(ref::to_e2m1(t.x)) == t.value);
  CHECK(ref::to_e2m1(-0.0f) == 8);
  CHECK(ref::to_e2m1(-0.1f) == 8);
}

TEST_CASE("no double rounding: not through f16, not through bf16, not twice below the normal range", "[elements]") {
  CHECK(ref::from_e4m3(ref::to_e4m3(1.0625f + 0x1p-13f)) == 1.125f);
  CHECK(ref::from_e4m3(ref::to_e4m3(1.0625f + 0x1p-9f)) == 1.125f);
  CHECK(ref::from_e4m3(ref::to_e4m3(1.0625f)) == 1.0f);  // the tie itself goes to the even code
  CHECK(ref::from_e4m3(ref::to_e4m3(0x1p-10f * (1 + 0x1p-12f))) == 0x1p-9f);
  CHECK(ref::to_e4m3(0x1p-10f) == 0);
  // E5M2: halfway between 2^-16 and 0, and a hair above.
  CHECK(ref::to_e5m2(0x1p-17f) == 0);
  CHECK(ref::from_e5m2(ref::to_e5m2(0x1p-17f * (1 + 0x1p-20f))) == 0x1p-16f);
}

TEST_CASE("finite overflow, Inf and NaN are three rows of the table", "[elements]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {448.0f, 464.0f, std::nextafter(464.0f, 1e9f), 464.0001f, 465.0f, 480.0f, 3e10f, FLT_MAX}) {
    CHECK(ref::to_e4m3(x) == 0x7e);
    CHECK(ref::to_e4m3(-x) == 0xfe);
  }
  CHECK(ref::to_e4m3(447.0f) == 0x7e);
  CHECK(ref::to_e4m3(431.99f) == 0x7d);
  for (const float x : {57344.0f, 61439.99f, 61440.0f, 65536.0f, FLT_MAX}) {
    CHECK(ref::to_e5m2(x) == 0x7b);
    CHECK(ref::to_e5m2(-x) == 0xfb);
  }
  CHECK(ref::to_e4m3(inf) == 0x7e);
  CHECK(ref::to_e4m3(-inf) == 0xfe);
  CHECK(ref::to_e5m2(inf) == 0x7b);
  CHECK(ref::to_e5m2(-inf) == 0xfb);
  CHECK(ref::to_e2m1(inf) == 7);
  CHECK(ref::to_e2m1(-inf) == 15);
  for (const std::uint32_t b : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
    CHECK(ref::to_e4m3(from_bits(b)) == 0x7f);
    CHECK(ref::to_e5m2(from_bits(b)) == 0x7f);
    CHECK(ref::to_e2m1(from_bits(b)) == 0);
    CHECK(ref::to_e4m3_sr(from_bits(b), 0) == 0x7f);
    CHECK(ref::to_e2m1_sr(from_bits(b), 0) == 0);
    CHECK(std::isnan(ref::from_bf16(ref::to_bf16(from_bits(b)))));
    CHECK(std::isnan(ref::from_f16(ref::to_f16_ieee(from_bits(b)))));
  }
  CHECK(ref::to_e4m3(-0.0f) == 0x80);
  CHECK(ref::to_e5m2(-0.0f) == 0x80);
  CHECK(std::isnan(nan));
}

TEST_CASE("E8M0: the ceil rule for every exponent, its ends, and codes 0, 254, 255", "[elements]") {
  golden::Tally tally;
  std::vector<std::uint32_t> bits;
  for (const golden::Interval& i : golden::intervals(Element::e8m0)) {
    bits.insert(bits.end(), {i.lowest, i.highest, i.lowest + (i.highest - i.lowest) / 2});
  }
  REQUIRE(golden::check_values(ElementsOnly(), Element::e8m0, golden::intervals(Element::e8m0), bits, tally).ok());
  INFO(tally.first);
  CHECK(tally.different == 0);
  CHECK(tally.compared == 3 * 255);
  CHECK(ref::from_e8m0(0) == 0x1p-127f);
  CHECK(ref::from_e8m0(0) > 0);
  CHECK(ref::from_e8m0(254) == 0x1p127f);
  CHECK(std::isnan(ref::from_e8m0(255)));
  CHECK(ref::to_e8m0_ceil(FLT_MAX) == 254);
  CHECK(ref::to_e8m0_ceil(std::numeric_limits<float>::infinity()) == 254);
  CHECK(ref::to_e8m0_ceil(std::numeric_limits<float>::quiet_NaN()) == 255);
  CHECK(ref::to_e8m0_ceil(0.0f) == 0);
  CHECK(ref::to_e8m0_ceil(1e-45f) == 0);
}

TEST_CASE("BF16 and F16 round as ml_dtypes and numpy do; the wire's BF16 saturates", "[elements]") {
  struct Sample {
    std::uint32_t bits;
    std::uint16_t code;
  };
  const Sample bf16[] = {
#include "bf16_samples.inc"
  };
  const Sample f16[] = {
#include "f16_samples.inc"
  };
  for (const Sample& s : bf16) {
    const float x = from_bits(s.bits);
    CHECK(ref::to_bf16_ieee(x) == s.code);
    const bool overflowed = (s.code & 0x7fff) == 0x7f80 && std::isfinite(x);
    CHECK(ref::to_bf16(x) == (overflowed ? (s.code & 0x8000) | 0x7f7f : s.code));
  }
  for (const Sample& s : f16) CHECK(ref::to_f16_ieee(from_bits(s.bits)) == s.code);
  // Widening is exact and gives back every code that is not a NaN.
  for (std::uint32_t c = 0; c <= 0xffffu; ++c) {
    const auto code = static_cast<std::uint16_t>(c);
    if (!std::isnan(ref::from_bf16(code))) CHECK(ref::to_bf16_ieee(ref::from_bf16(code)) == code);
    if (!std::isnan(ref::from_f16(code))) CHECK(ref::to_f16_ieee(ref::from_f16(code)) == code);
  }
}

TEST_CASE("finite_amax: the largest finite magnitude wherever a NaN or Inf stands", "[elements]") {
  Floats x(32, 0.5f);
  x[9] = -2.0f;
  for (const std::size_t at : {0u, 1u, 15u, 16u, 31u}) {
    for (const std::uint32_t b : {0x7fc00000u, 0xffc00001u, 0x7f800000u, 0xff800000u}) {
      Floats y = x;
      y[at] = from_bits(b);
      CHECK(ref::finite_amax(y.data(), 32) == 2.0f);
    }
  }
  CHECK(ref::finite_amax(x.data(), 0) == 0.0f);
  const float tiny[] = {0.0f, -from_bits(1)};
  CHECK(bits(ref::finite_amax(tiny, 2)) == 1);
}
