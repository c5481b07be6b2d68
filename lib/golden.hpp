// Tables of fixtures/golden, compiled in, and the check of a backend's conversions against them. They were made by ml_dtypes and
// numpy: no arithmetic is shared with any backend, so a mistake here does not agree with a mistake there.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend.hpp"

namespace gift::golden {

/// The FP32 numbers that round to `code`: those whose bits lie in [lowest, highest]. (Bits of one sign, ordered by magnitude.)
struct Interval {
  std::uint16_t code;
  std::uint32_t lowest, highest;
};

/// FP32 bits of a code's value; NaN is 0x7fc00000.
struct Value {
  std::uint16_t code;
  std::uint32_t bits;
};

/// e4m3, e5m2, e2m1: both signs, Inf included with the largest code. e8m0: quotients, ceil rule, finite and positive.
std::span<const Interval> intervals(Element element);
/// e4m3, e5m2, e2m1, e8m0: every code.
std::span<const Value> values(Element element);
/// What NaN becomes: 0x7f in FP8, 0 in E2M1, 0xff in E8M0.
std::uint16_t nan_code(Element element);
const char* element_name(Element element);
std::string hex(std::uint64_t value, std::size_t digits);  ///< "0x0c"
std::string shortest(float value);                         ///< the shortest decimal number that reads back as the same FP32

/// A count of what was compared, and the first thing that differed.
struct Tally {
  std::uint64_t compared = 0, different = 0;
  std::string first;  ///< of the lowest bits that differed in this part

  void add(const Tally& other);
};

/// Converts the FP32 numbers with bits [first_bits, last_bits] on the backend, which must lie within one interval or be NaNs, and
/// compares every code with `expected`.
Status check_range(const Backend& backend, Element element, std::uint32_t first_bits, std::uint32_t last_bits,
                   std::uint16_t expected, Tally& tally);

/// Compares converted values with an interval table; `bits` in any order.
Status check_values(const Backend& backend, Element element, std::span<const Interval> table, std::span<const std::uint32_t> bits,
                    Tally& tally);

/// The code that a table gives for these bits.
std::uint16_t expected_code(Element element, std::span<const Interval> table, std::uint32_t bits);

/// Decodes every code on the backend and compares the bits with a table (any NaN equals any NaN).
Status check_decode(const Backend& backend, Element element, std::span<const Value> table, Tally& tally);

}  // namespace gift::golden
