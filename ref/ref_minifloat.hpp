// The small floating-point types as data: what SPEC section 5's table of elements says, one line a type.
#pragma once

#include <bit>
#include <cstdint>

namespace gift::ref {

struct MiniFloat {
  int mantissa_bits;
  int bias;
  int sign_bit;
  std::uint32_t largest_code;   ///< of the finite numbers
  std::uint32_t overflow_code;  ///< what a finite number beyond the largest becomes
  std::uint32_t infinity_code;  ///< what Inf becomes
  std::uint32_t nan_code;
  bool nan_keeps_sign;
};

inline constexpr MiniFloat e4m3_type{3, 7, 7, 0x7e, 0x7e, 0x7e, 0x7f, false};
inline constexpr MiniFloat e5m2_type{2, 15, 7, 0x7b, 0x7b, 0x7b, 0x7f, false};
inline constexpr MiniFloat e2m1_type{1, 1, 3, 0x7, 0x7, 0x7, 0x0, false};
inline constexpr MiniFloat bf16_saturating_type{7, 127, 15, 0x7f7f, 0x7f7f, 0x7f80, 0x7fc0, true};
inline constexpr MiniFloat bf16_ieee_type{7, 127, 15, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0, true};
inline constexpr MiniFloat f16_ieee_type{10, 15, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00, true};

/// 2^exponent for -149 <= exponent <= 127, subnormals included.
constexpr float power_of_two(int exponent) noexcept {
  return std::bit_cast<float>(exponent >= -126 ? static_cast<std::uint32_t>(exponent + 127) << 23 : 1u << (exponent + 149));
}

}  // namespace gift::ref
