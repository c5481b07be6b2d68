// Conversions between FP32 and the small floating-point elements, by integer arithmetic on the bits.
//
//   FP32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm   bias 127
//   BF16   s eeeeeeee mmmmmmm                   bias 127
//   F16    s eeeee mmmmmmmmmm                   bias 15
//   E5M2   s eeeee mm                           bias 15
//   E4M3   s eeee mmm                           bias 7    (OCP: no Inf, S.1111.111 is NaN)
//   E2M1   s ee m                               bias 1    (no Inf, no NaN)
//   E8M0     eeeeeeee                           bias 127  (a power of two; 255 is NaN)
//
// One rounding from the FP32 value, in the subnormal range too: nothing passes through another type on its way.
#include <bit>

#include "ref_codec.hpp"
#include "ref_minifloat.hpp"

namespace gift::ref {
namespace {

constexpr std::uint32_t magnitude_mask = 0x7fffffffu;
constexpr std::uint32_t infinity_bits = 0x7f800000u;

constexpr std::uint32_t magnitude_of(float x) noexcept { return std::bit_cast<std::uint32_t>(x) & magnitude_mask; }
constexpr bool is_negative(float x) noexcept { return (std::bit_cast<std::uint32_t>(x) >> 31) != 0; }

/// A magnitude cut at the spacing of the target's numbers: |x| = (steps + rest / 2^shift) * spacing.
struct Cut {
  std::uint32_t code;  ///< of the neighbour towards zero, as if exponents had no end
  std::uint32_t rest;
  int shift;
};

Cut cut_at_spacing(const MiniFloat& type, std::uint32_t magnitude) noexcept {
  // 1. |x| = significand * 2^(exponent - 23); subnormal FP32 numbers have no leading one.
  const bool is_subnormal = magnitude < 0x00800000u;
  const int exponent = is_subnormal ? -126 : static_cast<int>(magnitude >> 23) - 127;
  const std::uint32_t significand = (magnitude & 0x007fffffu) | (is_subnormal ? 0u : 0x00800000u);
  // 2. Numbers of the target lie 2^(e - mantissa_bits) apart, where e is x's exponent but not less than that of the target's
  //    smallest normal number: below it the spacing stays (subnormals).
  const int smallest_normal = 1 - type.bias;
  const int spacing_exponent = exponent > smallest_normal ? exponent : smallest_normal;
  // 3. So `shift` bits of the significand lie below the spacing.
  const int shift = spacing_exponent - type.mantissa_bits - (exponent - 23);
  const std::uint32_t steps = shift < 32 ? significand >> shift : 0;
  const std::uint32_t rest = shift < 32 ? significand & ((1u << shift) - 1u) : significand;
  // 4. The code counts the target's numbers from 0: each step up in the exponent passes 2^mantissa_bits of them. `steps` brings
  //    its own leading one, which is worth one step of the exponent.
  const auto binades = static_cast<std::uint32_t>(spacing_exponent - smallest_normal);
  return {(binades << type.mantissa_bits) + steps, rest, shift};
}

std::uint16_t with_sign(const MiniFloat& type, bool negative, std::uint32_t code) noexcept {
  return static_cast<std::uint16_t>(negative ? code | (1u << type.sign_bit) : code);
}

/// `away` says, for a cut magnitude, whether to take the neighbour away from zero.
template <class Away>
std::uint16_t to_minifloat(const MiniFloat& type, float x, Away away) noexcept {
  const std::uint32_t magnitude = magnitude_of(x);
  if (magnitude > infinity_bits) return with_sign(type, type.nan_keeps_sign && is_negative(x), type.nan_code);
  if (magnitude == infinity_bits) return with_sign(type, is_negative(x), type.infinity_code);
  const Cut cut = cut_at_spacing(type, magnitude);
  // 5. Round: the carry out of a full mantissa moves into the exponent by itself.
  std::uint32_t code = cut.code + (away(cut) ? 1u : 0u);
  // 6. Beyond the last number: the overflow code (the largest number, or Inf where the type is written as IEEE says).
  if (code > type.largest_code) code = type.overflow_code;
  return with_sign(type, is_negative(x), code);
}

/// Nearest; of two equally near codes the even one.
bool nearest_even(const Cut& cut) noexcept {
  if (cut.shift > 24) return false;  // the significand has 24 bits, so less than half a spacing
  const std::uint32_t half = 1u << (cut.shift - 1);
  return cut.rest > half || (cut.rest == half && (cut.code & 1u) != 0);
}

/// Away from zero with probability rest / 2^shift: iff word < floor(rest / 2^shift * 2^32).
auto stochastic(std::uint32_t word) noexcept {
  return [word](const Cut& cut) {
    if (cut.shift > 63) return false;
    const std::uint64_t rest = cut.rest;
    return word < (cut.shift <= 32 ? rest << (32 - cut.shift) : rest >> (cut.shift - 32));
  };
}

/// Towards +Inf for a non-negative x.
bool upwards(const Cut& cut) noexcept { return cut.rest != 0; }

float from_minifloat(const MiniFloat& type, std::uint32_t code) noexcept {
  const std::uint32_t sign = (code >> type.sign_bit) & 1u;
  const std::uint32_t magnitude = code & ((1u << type.sign_bit) - 1u);
  const std::uint32_t exponent = magnitude >> type.mantissa_bits;
  const std::uint32_t mantissa = magnitude & ((1u << type.mantissa_bits) - 1u);
  // Products of an integer and a power of two: exact, so the order does not matter.
  const std::uint32_t steps = exponent == 0 ? mantissa : mantissa | (1u << type.mantissa_bits);
  const int binade = exponent == 0 ? 1 : static_cast<int>(exponent);
  const float spacing = power_of_two(binade - type.bias - type.mantissa_bits);
  const float value = static_cast<float>(steps) * spacing;
  return sign != 0 ? -value : value;
}

float quiet_nan(bool negative) noexcept { return std::bit_cast<float>(negative ? 0xffc00000u : 0x7fc00000u); }
float infinity(bool negative) noexcept { return std::bit_cast<float>(negative ? 0xff800000u : 0x7f800000u); }

}  // namespace

std::uint8_t to_e4m3(float x) noexcept { return static_cast<std::uint8_t>(to_minifloat(e4m3_type, x, nearest_even)); }
std::uint8_t to_e5m2(float x) noexcept { return static_cast<std::uint8_t>(to_minifloat(e5m2_type, x, nearest_even)); }
std::uint8_t to_e2m1(float x) noexcept { return static_cast<std::uint8_t>(to_minifloat(e2m1_type, x, nearest_even)); }
std::uint16_t to_bf16(float x) noexcept { return to_minifloat(bf16_saturating_type, x, nearest_even); }
std::uint16_t to_bf16_ieee(float x) noexcept { return to_minifloat(bf16_ieee_type, x, nearest_even); }
std::uint16_t to_f16_ieee(float x) noexcept { return to_minifloat(f16_ieee_type, x, nearest_even); }

std::uint8_t to_e4m3_sr(float x, std::uint32_t word) noexcept {
  return static_cast<std::uint8_t>(to_minifloat(e4m3_type, x, stochastic(word)));
}
std::uint8_t to_e5m2_sr(float x, std::uint32_t word) noexcept {
  return static_cast<std::uint8_t>(to_minifloat(e5m2_type, x, stochastic(word)));
}
std::uint8_t to_e2m1_sr(float x, std::uint32_t word) noexcept {
  return static_cast<std::uint8_t>(to_minifloat(e2m1_type, x, stochastic(word)));
}
std::uint16_t to_bf16_sr(float x, std::uint32_t word) noexcept { return to_minifloat(bf16_saturating_type, x, stochastic(word)); }

std::uint8_t to_e4m3_up(float x) noexcept { return static_cast<std::uint8_t>(to_minifloat(e4m3_type, x, upwards)); }

std::uint8_t to_e8m0_ceil(float quotient) noexcept {
  const std::uint32_t magnitude = magnitude_of(quotient);
  if (magnitude > infinity_bits) return 0xff;
  if (is_negative(quotient) && magnitude != 0) return 0xff;  // no code means a negative scale
  // 1. At most 2^-127, the smallest scale: code 0 (2^-127 itself is a subnormal FP32 number).
  if (magnitude <= 0x00400000u) return 0;
  // 2. The exponent field, plus one if there is anything behind it. Between 2^-127 and 2^-126 the field is 0 and the rule gives
  //    1, which is 2^-126: the next power of two there as well.
  const std::uint32_t code = (magnitude >> 23) + ((magnitude & 0x007fffffu) != 0 ? 1u : 0u);
  // 3. Finite values above 2^127, and Inf: the largest scale, since 255 means NaN.
  return static_cast<std::uint8_t>(code > 254u ? 254u : code);
}

float from_e4m3(std::uint8_t code) noexcept {
  return (code & 0x7fu) == 0x7fu ? quiet_nan(code >> 7 != 0) : from_minifloat(e4m3_type, code);
}

float from_e5m2(std::uint8_t code) noexcept {
  if ((code & 0x7fu) > 0x7cu) return quiet_nan(code >> 7 != 0);
  if ((code & 0x7fu) == 0x7cu) return infinity(code >> 7 != 0);
  return from_minifloat(e5m2_type, code);
}

float from_e2m1(std::uint8_t code) noexcept { return from_minifloat(e2m1_type, code & 0xfu); }

float from_e8m0(std::uint8_t code) noexcept {
  return code == 0xff ? quiet_nan(false) : power_of_two(static_cast<int>(code) - 127);
}

float from_bf16(std::uint16_t code) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16); }

float from_f16(std::uint16_t code) noexcept {
  const std::uint32_t magnitude = code & 0x7fffu;
  // A NaN keeps its payload, so that widening is exact for every code.
  if (magnitude > 0x7c00u) {
    return std::bit_cast<float>((static_cast<std::uint32_t>(code >> 15) << 31) | 0x7fc00000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude == 0x7c00u) return infinity(code >> 15 != 0);
  return from_minifloat(f16_ieee_type, code);
}

float finite_amax(const float* x, std::int64_t count) noexcept {
  // Magnitudes of finite numbers are ordered as their bits are, so no comparison here depends on the FP environment.
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = magnitude_of(x[i]);
    if (magnitude < infinity_bits && magnitude > largest) largest = magnitude;
  }
  return std::bit_cast<float>(largest);
}

}  // namespace gift::ref
