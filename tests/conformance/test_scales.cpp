// Scales and blocks at the ends of the FP32 range: what SPEC section 5 fixes and what others' users reported.
#include <cfloat>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "codec_kit.hpp"

using namespace codec_kit;
namespace ref = gift::ref;

namespace {

const float extremes[] = {1e-45f, 1e-37f, 5e-36f, 7.8e-36f, 1.0f, 1e30f, 1e36f, FLT_MAX};

bool all_finite(const Floats& x) {
  for (const float v : x) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

/// Shares of amax, both signs, over two NVFP4 blocks and a short one.
Floats shares(float amax) {
  Floats x(35);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(std::cos(static_cast<double>(j) * 0.7)) * amax;
  x[20] = -amax;
  return x;
}

std::vector<std::string> all_formats() {
  std::vector<std::string> all = nearest_formats();
  all.insert(all.end(), stochastic_formats().begin(), stochastic_formats().end());
  return all;
}

/// Largest |x - decoded| relative to amax that rounding to nearest allows where the scale itself does not underflow: half the
/// largest spacing over the largest number, and what the power-of-two and E4M3 scales lose.
double allowed_error(const std::string& format) {
  if (format == "fp32") return 0;
  if (format == "bf16") return 0x1p-8;
  if (format.starts_with("e4m3")) return 0x1p-4;
  if (format.starts_with("e5m2")) return 0x1p-3;
  if (format == "mxfp8") return 0x1p-3;
  if (format == "mxfp8:floor") return 0.25;  // 448 / 512 clips an eighth, then rounding
  if (format == "nvfp4" || format == "nvfp4:tensor") return 0.2;
  return 0.34;
}

}  // namespace

TEST_CASE("amax at the ends of the range: every decoded number is finite and within the format's bound", "[scales]") {
  for (const std::string& format : nearest_formats()) {
    for (const float amax : extremes) {
      INFO(format << " amax " << amax);
      const Floats x = shares(amax);
      const Floats y = round_trip(format, row_of(x));
      REQUIRE(all_finite(y));
      double worst = 0;
      for (std::size_t j = 0; j < x.size(); ++j) worst = std::max(worst, std::fabs(double{x[j]} - double{y[j]}) / double{amax});
      // Below this the quotient 448/amax overflows FP32 or the step is subnormal: the numbers may vanish, never grow.
      const bool representable = amax >= 1e-35f;
      CHECK(worst <= (representable ? allowed_error(format) : 1.0));
    }
  }
}

TEST_CASE("amax FLT_MAX: code times scale beyond FLT_MAX decodes to FLT_MAX, not to Inf", "[scales]") {
  for (const std::string& format : all_formats()) {
    INFO(format);
    const Floats y = round_trip(format, row_of({FLT_MAX, -FLT_MAX, FLT_MAX / 3}));
    CHECK(all_finite(y));
    CHECK(y[0] > 2.5e38f);
    CHECK(y[1] < -2.5e38f);
  }
  // The power of two above FLT_MAX is what mxfp8's largest code would mean here.
  CHECK(round_trip("mxfp8", row_of({FLT_MAX}))[0] == FLT_MAX);
  CHECK(round_trip("bf16", row_of({FLT_MAX}))[0] == from_bits(0x7f7f0000u));
}

TEST_CASE("tiny amax: FP8's encode scale is FLT_MAX, not Inf, and nothing becomes NaN", "[scales]") {
  const Encoded e = encode(paths()[0], "e4m3:tensor", row_of(Floats(20, 1e-37f)));
  CHECK(e.fp32_scale(0) == 1.0f / FLT_MAX);
  const float expected = ref::from_e4m3(ref::to_e4m3(1e-37f * FLT_MAX)) * (1.0f / FLT_MAX);
  CHECK(expected > 0);
  for (const float y : decode(paths()[0], e)) CHECK(bits(y) == bits(expected));
  for (const float y : round_trip("nvfp4", row_of(Floats(16, 5e-36f)))) CHECK(y == Approx(5e-36f).epsilon(0.1));
}

TEST_CASE("zeros: a zero tensor, minus zeros, a zero block in a tensor that is not zero", "[scales]") {
  for (const std::string& format : all_formats()) {
    INFO(format);
    for (const float y : round_trip(format, columns(17, Floats(34, 0.0f)))) CHECK(bits(y) == 0);
    // The sign of a zero survives where a code has one; nvfp4's empty blocks are zero bytes.
    for (const float y : round_trip(format, row_of(Floats(18, -0.0f)))) {
      CHECK(bits(y) == (format.starts_with("nvfp4") ? 0u : 0x80000000u));
    }
    Floats x(32, 0.0f);
    for (std::size_t j = 16; j < 32; ++j) x[j] = static_cast<float>(j) / 31;
    const Floats y = round_trip(format, row_of(x));
    CHECK(all_finite(y));
    for (std::size_t j = 0; j < 16; ++j) CHECK(bits(y[j]) == 0);
    CHECK(y[31] == Approx(1.0).epsilon(0.2));
  }
  CHECK(encode(paths()[0], "e4m3", row_of(Floats(5, 0.0f))).fp32_scale(0) == 1.0f);
  CHECK(encode(paths()[0], "nvfp4", row_of(Floats(5, 0.0f))).fp32_scale(0) == 1.0f);
}

TEST_CASE("nvfp4: the formula's steps on one block, in FP32", "[scales]") {
  Floats x(16, 0.0f);
  x[0] = 3.0f;
  x[1] = -0.7f;
  const Encoded e = encode(paths()[0], "nvfp4", row_of(x));
  const float s = 2688.0f / 3.0f;
  const unsigned b = ref::to_e4m3(3.0f * (s * (1.0f / 6.0f)));
  CHECK(e.fp32_scale(0) == 1.0f / s);
  CHECK(e.block_scale(0) == b);
  CHECK(b == 0x7e);
  const float d = 448.0f * (1.0f / s);
  CHECK(decode(paths()[0], e)[0] == 6.0f * d);
  CHECK(decode(paths()[0], e)[1] == ref::from_e2m1(ref::to_e2m1(-0.7f * (1.0f / d))) * d);
}

TEST_CASE("nvfp4: a block whose scale underflows is eight zero bytes, signs included, and is counted", "[scales]") {
  Floats x(32, -1e-6f);
  x[3] = 1.0f;
  for (const char* format : {"nvfp4", "nvfp4:tensor"}) {
    const Encoded e = encode(paths()[0], format, row_of(x));
    CHECK(e.block_scale(1) == 0);
    for (std::int64_t byte = 8; byte < 16; ++byte) CHECK(e.code_byte(0, byte) == 0);
    CHECK(e.counts.bottom_codes == 31);
    const Floats y = decode(paths()[0], e);
    CHECK(y[3] == Approx(1.0f));
    for (std::size_t j = 16; j < 32; ++j) CHECK(bits(y[j]) == 0);
  }
  // Rounded up, the scale does not vanish, and the block lives on in the mean.
  CHECK(encode(paths()[0], "nvfp4:sr", row_of(x)).block_scale(1) == 1);
}

TEST_CASE("FP4 packing: the first element is in the low nibble; odd rows end on a byte of their own", "[scales]") {
  // amax 6 gives g with b * g = 1, so codes are those of the numbers themselves.
  const Encoded e = encode(paths()[0], "nvfp4", columns(3, {0.5f, 6, 1, 6, 1, 0.5f}));
  CHECK(e.code_bytes(0) == std::vector<unsigned>{0x71, 0x02});
  CHECK(e.code_bytes(1) == std::vector<unsigned>{0x27, 0x01});
  CHECK(encode(paths()[0], "mxfp4", row_of({1, 6})).code_bytes(0) == std::vector<unsigned>{0x72});
}

TEST_CASE("MX scale bytes for the amaxes that tell the rules apart", "[scales]") {
  const struct {
    float amax;
    unsigned fp8_ceil, fp8_floor, fp4_ceil, fp4_floor;
  } cases[] = {
      // 448 = 1.75 * 2^8 and 6 = 1.5 * 2^2; scale byte = exponent + 127
      {450, 128, 127, 134, 133},  // 450/448 > 1; 450/6 = 75 in (64, 128]; floor(log2 450) = 8
      {500, 128, 127, 134, 133},
      {150, 126, 126, 132, 132},         // 150/448 in (1/4, 1/2]; 150/6 = 25 in (16, 32]; floor(log2 150) = 7
      {448, 127, 127, 134, 133},         // exactly 1; 448/6 = 74.7
      {1.9999999f, 120, 119, 126, 125},  // /448 in (2^-8, 2^-7]; /6 in (1/4, 1/2]; floor 0
      {6, 121, 121, 127, 127},           // /448 in (2^-7, 2^-6]
      {0x1p20f, 139, 139, 145, 145},     // 2^20/448 in (2^11, 2^12]; 2^20/6 in (2^17, 2^18]
  };
  for (const auto& c : cases) {
    INFO("amax " << c.amax);
    const auto scale = [&](const char* format) {
      return encode(paths()[0], format, row_of({c.amax, -c.amax / 3})).block_scale(0);
    };
    CHECK(scale("mxfp8") == c.fp8_ceil);
    CHECK(scale("mxfp8:floor") == c.fp8_floor);
    CHECK(scale("mxfp4") == c.fp4_ceil);
    CHECK(scale("mxfp4:floor") == c.fp4_floor);
  }
  // Powers of two, all of them: the exact exponent by counting, no logarithm of a float anywhere.
  for (int k = -149; k <= 127; ++k) {
    const float amax = std::ldexp(1.0f, k);
    CHECK(encode(paths()[0], "mxfp8:floor", row_of({amax})).block_scale(0) == static_cast<unsigned>(std::max(0, k - 8 + 127)));
    CHECK(encode(paths()[0], "mxfp8", row_of({amax})).block_scale(0) == static_cast<unsigned>(std::max(0, k - 8 + 127)));
  }
}

TEST_CASE("MX: ceil saturates nothing, floor can, and the counter says so", "[scales]") {
  const Encoded ceil = encode(paths()[0], "mxfp8", row_of({500, 1}));
  CHECK(ceil.counts.saturated == 0);
  const Encoded floor = encode(paths()[0], "mxfp8:floor", row_of({500, 1}));
  CHECK(floor.counts.saturated == 1);
  CHECK(decode(paths()[0], floor)[0] == 448.0f);
  CHECK(decode(paths()[0], ceil)[0] == 512.0f);
}

TEST_CASE("E8M0 code 0 decodes a block to multiples of 2^-127, code 255 to NaN, code 254 exactly", "[scales]") {
  Encoded e = encode(paths()[0], "mxfp8", row_of(Floats(32, 448.0f)));
  for (std::int64_t j = 0; j < 32; ++j) e.payload[e.layout.code_offset + j] = std::byte{0x38};
  const auto with_scale = [&](unsigned code) {
    e.payload[e.layout.block_scale_offset] = static_cast<std::byte>(code);
    Floats x(32);
    paths()[0].decode(e.format, e.layout, e.payload.data(), 0, 1, x.data());
    return x;
  };
  for (const float x : with_scale(0)) CHECK(x == 0x1p-127f);
  for (const float x : with_scale(255)) CHECK(std::isnan(x));
  for (const float x : with_scale(254)) CHECK(x == 0x1p127f);
}

TEST_CASE("MX: no finite block ever gets the NaN scale, and tiny blocks stay finite", "[scales]") {
  for (const char* format : {"mxfp8", "mxfp4", "mxfp8:floor", "mxfp4:floor"}) {
    for (const float amax : {0.0f, 1e-45f, 1e-40f, 1e-37f, 0x1p-127f, FLT_MIN, 1e30f, FLT_MAX}) {
      const Encoded e = encode(paths()[0], format, row_of({amax, -amax, amax / 2}));
      CHECK(e.block_scale(0) < 255);
      CHECK(all_finite(decode(paths()[0], e)));
    }
  }
}

TEST_CASE("Inf and NaN in a block: the largest code, the NaN code, and neighbours scaled by what is finite", "[scales]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Floats x = {inf, -inf, nan, -nan, 1};
  const auto codes = [&](const char* format) { return encode(paths()[0], format, row_of(x)).code_bytes(0); };
  CHECK(codes("e4m3") == std::vector<unsigned>{0x7e, 0xfe, 0x7f, 0x7f, 0x7e});
  CHECK(codes("e5m2") == std::vector<unsigned>{0x7b, 0xfb, 0x7f, 0x7f, 0x7b});
  CHECK(codes("nvfp4") == std::vector<unsigned>{0xf7, 0x00, 0x07});
  CHECK(codes("mxfp8") == std::vector<unsigned>{0x7e, 0xfe, 0x7f, 0x7f, 0x78});  // scale 2^-8: 1 is 256
  CHECK(codes("mxfp4") == std::vector<unsigned>{0xf7, 0x00, 0x06});              // scale 2^-2: 1 is 4
  // Wherever the NaN stands, the finite neighbours come out as without it.
  for (const std::size_t at : {0u, 1u, 15u, 16u, 31u}) {
    Floats y(32, 0.75f);
    y[7] = 1.0f;
    y[at] = nan;
    for (const std::string& format : nearest_formats()) {
      const Floats decoded = decode(paths()[0], encode(paths()[0], format, row_of(y)));
      CHECK(decoded[7] == Approx(1.0f).epsilon(0.13));
      if (!format.starts_with("nvfp4") && !format.starts_with("mxfp4")) CHECK(std::isnan(decoded[at]));
    }
  }
}

TEST_CASE("saturation is the same in the body of a row and in its tail", "[scales]") {
  // The tensor amax of an owner's shard or a sender's tensor may be smaller than a row's here: pass it by hand.
  const gift::FormatSpec spec = gift::parse_format("e4m3:tensor").value();
  for (const std::int64_t n : {1, 7, 16, 33}) {
    const gift::ElementLayout layout = gift::element_layout(spec, 1, n).value();
    for (const float v : {447.0f, 448.0f, 464.0f, 464.0001f, 465.0f, 480.0f, 3e10f, -464.0f, -465.0f, -3e10f}) {
      for (const Path& path : paths()) {
        const Floats x(static_cast<std::size_t>(n), v);
        Bytes out(static_cast<std::size_t>(layout.total_bytes));
        ref::ElementCounts counts;
        path.encode(spec, layout, x.data(), 0, 448.0f, golden_key(), ref::Stage::sender, out.data(), &counts);
        for (std::int64_t j = 0; j < n; ++j) {
          CHECK(std::to_integer<unsigned>(out[layout.code_offset + j]) == (v < 0 ? 0xfeu : 0x7eu));
        }
        CHECK(counts.top_codes == static_cast<std::uint64_t>(n));
        CHECK(counts.saturated == (std::fabs(v) > 464.0f ? static_cast<std::uint64_t>(n) : 0u));
      }
    }
  }
}

TEST_CASE("shapes: one element, odd columns, short last blocks, empty, every format between guards", "[scales]") {
  for (const std::string& format : all_formats()) {
    for (const std::int64_t rows : {1, 2, 3}) {
      for (const std::int64_t cols : {1, 2, 7, 15, 16, 17, 31, 33, 127, 129, 257}) {
        Floats x(static_cast<std::size_t>(rows * cols));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i) + 0.5));
        INFO(format << " " << rows << " x " << cols);
        CHECK(all_finite(round_trip(format, {rows, cols, x})));
      }
    }
    CHECK(round_trip(format, {0, 16, {}}).empty());
    CHECK(round_trip(format, {16, 0, {}}).empty());
  }
}

TEST_CASE("rows are independent: each row's bytes are those of the row encoded alone", "[scales]") {
  Floats x(4 * 37);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(i)) * std::pow(10.0, static_cast<double>(i / 37)));
  for (const std::string& format : all_formats()) {
    if (format.find("tensor") != std::string::npos) continue;
    const Encoded all = encode(paths()[0], format, {4, 37, x}, 10);
    for (std::int64_t i = 0; i < 4; ++i) {
      const Floats row(x.begin() + i * 37, x.begin() + (i + 1) * 37);
      CHECK(encode(paths()[0], format, row_of(row), 10 + i).code_bytes(0) == all.code_bytes(i));
    }
  }
}

TEST_CASE("hostile payloads decode without a trap: Inf and NaN scales, NaN codes", "[scales]") {
  for (const std::string& format : nearest_formats()) {
    Encoded e = encode(paths()[0], format, columns(19, Floats(38, 1.0f)));
    for (const unsigned fill : {0x7fu, 0xffu, 0x80u, 0x7cu}) {
      std::fill(e.payload.begin(), e.payload.end(), static_cast<std::byte>(fill));
      Floats x(38);
      paths()[0].decode(e.format, e.layout, e.payload.data(), 0, 2, x.data());
    }
  }
  SUCCEED();
}
