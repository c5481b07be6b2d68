// The tables themselves, and the comparisons with them.
#include "golden.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <vector>

namespace gift::golden {
namespace {

constexpr Interval e4m3_intervals[] = {
#include "e4m3_intervals.inc"
};
constexpr Interval e5m2_intervals[] = {
#include "e5m2_intervals.inc"
};
constexpr Interval e2m1_intervals[] = {
#include "e2m1_intervals.inc"
};
constexpr Interval e8m0_intervals[] = {
#include "e8m0_ceil_intervals.inc"
};
constexpr Value e4m3_values[] = {
#include "e4m3_values.inc"
};
constexpr Value e5m2_values[] = {
#include "e5m2_values.inc"
};
constexpr Value e2m1_values[] = {
#include "e2m1_values.inc"
};
constexpr Value e8m0_values[] = {
#include "e8m0_values.inc"
};

constexpr std::uint32_t infinity_bits = 0x7f800000u;

bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7fffffffu) > infinity_bits; }

std::string describe(std::uint32_t bits, std::uint16_t got, std::uint16_t expected) {
  return "input " + hex(bits, 8) + " (" + shortest(std::bit_cast<float>(bits)) + "): got code " + hex(got, 2) + ", expected " +
         hex(expected, 2);
}

/// Inputs and codes of one call, kept between calls.
struct Buffers {
  std::vector<float> in;
  std::vector<std::uint16_t> out;
};

Status convert(const Backend& backend, Element element, Buffers& buffers) {
  // A code that no conversion gives, so that a value that was never written is seen.
  buffers.out.assign(buffers.in.size(), 0xa5a5);
  return backend.convert(element, Rounding::rne, RoundingKey{}, 0, buffers.in, buffers.out);
}

}  // namespace

std::span<const Interval> intervals(Element element) {
  switch (element) {
    case Element::e4m3:
      return e4m3_intervals;
    case Element::e5m2:
      return e5m2_intervals;
    case Element::e2m1:
      return e2m1_intervals;
    case Element::e8m0:
      return e8m0_intervals;
    default:
      return {};
  }
}

std::span<const Value> values(Element element) {
  switch (element) {
    case Element::e4m3:
      return e4m3_values;
    case Element::e5m2:
      return e5m2_values;
    case Element::e2m1:
      return e2m1_values;
    case Element::e8m0:
      return e8m0_values;
    default:
      return {};
  }
}

std::uint16_t nan_code(Element element) {
  if (element == Element::e2m1) return 0;
  return element == Element::e8m0 ? 0xff : 0x7f;
}

const char* element_name(Element element) {
  static constexpr std::array<const char*, 6> names = {"e4m3", "e5m2", "e2m1", "e8m0", "bf16", "f16"};
  return names[static_cast<std::size_t>(element)];
}

std::string hex(std::uint64_t value, std::size_t digits) {
  std::array<char, 16> text{};
  char* end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  const std::string body(text.data(), end);
  return "0x" + std::string(body.size() < digits ? digits - body.size() : 0, '0') + body;
}

std::string shortest(float value) {
  std::array<char, 32> text{};
  return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
}

void Tally::add(const Tally& other) {
  compared += other.compared;
  different += other.different;
  if (first.empty()) first = other.first;
}

Status check_range(const Backend& backend, Element element, std::uint32_t first_bits, std::uint32_t last_bits,
                   std::uint16_t expected, Tally& tally) {
  constexpr std::uint64_t chunk = 1u << 14;
  thread_local Buffers buffers;
  for (std::uint64_t begin = first_bits; begin <= last_bits; begin += chunk) {
    const std::uint64_t count = std::min<std::uint64_t>(chunk, std::uint64_t{last_bits} - begin + 1);
    buffers.in.resize(count);
    const auto base = static_cast<std::uint32_t>(begin);
    for (std::uint32_t k = 0; k < count; ++k) buffers.in[k] = std::bit_cast<float>(base + k);
    if (Status status = convert(backend, element, buffers); !status.ok()) return status;
    std::uint32_t different = 0;
    for (const std::uint16_t code : buffers.out) different += code != expected ? 1u : 0u;
    if (different != 0 && tally.first.empty()) {
      const auto at = std::find_if(buffers.out.begin(), buffers.out.end(), [&](std::uint16_t code) { return code != expected; });
      tally.first = describe(base + static_cast<std::uint32_t>(at - buffers.out.begin()), *at, expected);
    }
    tally.compared += count;
    tally.different += different;
  }
  return Status();
}

std::uint16_t expected_code(Element element, std::span<const Interval> table, std::uint32_t bits) {
  if (is_nan_bits(bits)) return nan_code(element);
  // Tables go from code 0 up and, after that, from minus 0 down: by bits, both are ascending.
  const auto after = std::upper_bound(table.begin(), table.end(), bits,
                                      [](std::uint32_t value, const Interval& interval) { return value < interval.lowest; });
  return after == table.begin() ? table.front().code : (after - 1)->code;
}

Status check_values(const Backend& backend, Element element, std::span<const Interval> table, std::span<const std::uint32_t> bits,
                    Tally& tally) {
  Buffers buffers;
  for (const std::uint32_t b : bits) buffers.in.push_back(std::bit_cast<float>(b));
  if (Status status = convert(backend, element, buffers); !status.ok()) return status;
  for (std::size_t k = 0; k < bits.size(); ++k) {
    const std::uint16_t expected = expected_code(element, table, bits[k]);
    ++tally.compared;
    if (buffers.out[k] == expected) continue;
    ++tally.different;
    if (tally.first.empty()) tally.first = describe(bits[k], buffers.out[k], expected);
  }
  return Status();
}

Status check_decode(const Backend& backend, Element element, std::span<const Value> table, Tally& tally) {
  std::vector<std::uint16_t> codes;
  for (const Value& entry : table) codes.push_back(entry.code);
  std::vector<float> decoded(codes.size(), 12345.0f);
  if (Status status = backend.expand(element, codes, decoded); !status.ok()) return status;
  for (std::size_t k = 0; k < table.size(); ++k) {
    const auto got = std::bit_cast<std::uint32_t>(decoded[k]);
    ++tally.compared;
    if (got == table[k].bits || (is_nan_bits(got) && is_nan_bits(table[k].bits))) continue;
    ++tally.different;
    if (tally.first.empty()) {
      tally.first = "code " + hex(table[k].code, 2) + ": decoded to " + hex(got, 8) + ", expected " + hex(table[k].bits, 8);
    }
  }
  return Status();
}

}  // namespace gift::golden
