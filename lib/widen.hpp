// Widening of file dtypes by integer arithmetic alone, so that a host program's flush-to-zero settings cannot change a value.
#pragma once

#include <bit>
#include <cstdint>

namespace gift {

inline float widen_bf16(std::uint16_t code) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16); }

inline float widen_f16(std::uint16_t code) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000u) << 16;
  const std::uint32_t exponent = (code >> 10) & 31u;
  std::uint32_t mantissa = code & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // A subnormal m * 2^-24: its leading one becomes FP32's implicit bit.
  const std::uint32_t shift = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21;
  mantissa = mantissa << shift & 0x3FFu;
  return std::bit_cast<float>(sign | (113 - shift) << 23 | mantissa << 13);
}

inline double widen_f32(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool subnormal = (bits & 0x7F800000u) == 0 && (bits & 0x7FFFFFu) != 0;
  if (!subnormal) return static_cast<double>(value);
  const double magnitude = static_cast<double>(bits & 0x7FFFFFu) * 0x1p-149;
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

/// FP64 to FP32, to nearest, ties to even; overflow gives Inf.
inline float round_f64(double value) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  const auto exponent = static_cast<std::int32_t>(bits >> 52 & 0x7FF);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
  if (exponent == 0x7FF) return std::bit_cast<float>(sign | 0x7F800000u | (fraction != 0 ? 0x400000u : 0u));
  if (exponent < 1023 - 151) return std::bit_cast<float>(sign);  // below half of the smallest subnormal, 2^-150
  // The 53-bit significand loses 29 bits, and more where the result is subnormal; a carry runs into the exponent as it should.
  const std::int32_t biased = exponent - 1023 + 127;
  const std::int32_t shift = biased > 0 ? 29 : 30 - biased;
  const std::uint64_t significand = fraction | std::uint64_t{1} << 52;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1), half = std::uint64_t{1} << (shift - 1);
  std::uint64_t kept = significand >> shift;
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  const std::uint64_t result = kept + (biased > 0 ? static_cast<std::uint64_t>(biased - 1) << 23 : 0);
  return std::bit_cast<float>(sign | (result >= 0x7F800000u ? 0x7F800000u : static_cast<std::uint32_t>(result)));
}

}  // namespace gift
