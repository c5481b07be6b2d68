// Conversion of FP32 to small floating-point elements without branches, for loops that a compiler turns into vector code.
// Another way to the same bytes as ref_float8.cpp: tests hold the two equal, and both to the golden tables.
#pragma once

#include <bit>
#include <cstdint>

#include "ref_codec.hpp"

/// Inlined even into functions compiled for more instructions than this file is.
#define GIFT_INLINE [[gnu::always_inline]] inline
#define GIFT_INLINE_LAMBDA __attribute__((always_inline))

namespace gift::fast {

/// An element type as constants. `magic` is the FP32 number whose last place is the spacing of the type's subnormals.
template <int MantissaBits, int Bias, std::uint32_t LargestCode, std::uint32_t NanCode, std::uint32_t SaturatesFrom>
struct Traits {
  static constexpr int dropped_bits = 23 - MantissaBits;
  static constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - Bias) << MantissaBits;
  static constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(127 + 1 - Bias) << 23;
  static constexpr std::uint32_t magic = static_cast<std::uint32_t>(127 + 23 + 1 - Bias - MantissaBits) << 23;
  static constexpr std::uint32_t largest_code = LargestCode;
  static constexpr std::uint32_t nan_code = NanCode;
  static constexpr std::uint32_t saturates_from = SaturatesFrom;  ///< smallest magnitude bits that round beyond the largest
};
using E4m3 = Traits<3, 7, 0x7e, 0x7f, 0x43e80001u>;   // beyond 464
using E5m2 = Traits<2, 15, 0x7b, 0x7f, 0x47700000u>;  // from 61440
using E2m1 = Traits<1, 1, 0x7, 0x0, 0x40e00000u>;     // from 7

inline constexpr std::uint32_t infinity_bits = 0x7f800000u;

GIFT_INLINE std::uint32_t magnitude_bits(float x) noexcept { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// The code of a magnitude, sign not included.
template <class T>
GIFT_INLINE std::uint32_t round_magnitude(std::uint32_t m) noexcept {
  // Normal range: add just under half of the last kept place, and the place itself if it is odd; then shift.
  const std::uint32_t half_less_one = (1u << (T::dropped_bits - 1)) - 1u;
  const std::uint32_t normal = ((m + half_less_one + ((m >> T::dropped_bits) & 1u)) >> T::dropped_bits) - T::rebias;
  // Below it: adding `magic` makes the FP32 adder round to the spacing of the subnormals, to nearest even.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(m) + std::bit_cast<float>(T::magic)) - T::magic;
  const std::uint32_t code = m < T::smallest_normal ? subnormal : normal;
  return code < T::largest_code ? code : T::largest_code;
}

/// The whole code; `sign_shift` moves FP32's sign to the type's.
template <class T>
GIFT_INLINE std::uint32_t convert_one(std::uint32_t bits, int sign_shift) noexcept {
  const std::uint32_t m = bits & 0x7fffffffu;
  const std::uint32_t code = round_magnitude<T>(m) | ((bits & 0x80000000u) >> sign_shift);
  return m > infinity_bits ? T::nan_code : code;
}

/// Counters of one run, 32 bits wide so that they stay in vector lanes; runs are cut so that they cannot overflow.
struct RunCounts {
  std::uint32_t saturated = 0, top_codes = 0, bottom_codes = 0;
};

/// Scales and rounds `N` elements (a constant number, so that the loop has no tail) to one code a byte.
template <class T, int N>
GIFT_INLINE void encode_lanes(const float* x, float scale, int sign_shift, std::uint8_t* codes, RunCounts& counts) noexcept {
  std::uint32_t saturated = 0, top = 0, bottom = 0;
  for (int k = 0; k < N; ++k) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[k] * scale);
    const std::uint32_t m = bits & 0x7fffffffu, input = magnitude_bits(x[k]);
    const std::uint32_t code = convert_one<T>(bits, sign_shift);
    const std::uint32_t magnitude = m > infinity_bits ? T::nan_code : round_magnitude<T>(m);
    codes[k] = static_cast<std::uint8_t>(code);
    saturated += (m >= T::saturates_from ? 1u : 0u) & (m <= infinity_bits ? 1u : 0u);
    top += magnitude == T::largest_code ? 1u : 0u;
    bottom += (magnitude == 0 ? 1u : 0u) & (input - 1u < infinity_bits - 1u ? 1u : 0u);
  }
  counts.saturated += saturated;
  counts.top_codes += top;
  counts.bottom_codes += bottom;
}

/// Bits of the largest finite magnitude of N elements and `largest`.
template <int N>
GIFT_INLINE std::uint32_t amax_lanes(const float* x, std::uint32_t largest) noexcept {
  for (int k = 0; k < N; ++k) {
    const std::uint32_t m = magnitude_bits(x[k]);
    const std::uint32_t finite = m < infinity_bits ? m : 0u;
    largest = finite > largest ? finite : largest;
  }
  return largest;
}

}  // namespace gift::fast
