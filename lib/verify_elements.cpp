// Single conversions: against the golden tables where there are any (all 2^32 inputs if asked for), else against the other
// backend.
#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <system_error>
#include <thread>

#include "verify_internal.hpp"

namespace gift::verification {
namespace {

constexpr Element tabled[] = {Element::e4m3, Element::e5m2, Element::e2m1};

/// FP32 numbers of which all convert to the same code.
struct Range {
  Element element;
  std::uint32_t first_bits, last_bits;
  std::uint16_t expected;
};

/// All 2^32 inputs of one element, cut at the borders of codes and into pieces that take about as long.
void add_ranges(Element element, std::vector<Range>& ranges) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 24;
  const auto add = [&](std::uint32_t first, std::uint32_t last, std::uint16_t code) {
    for (std::uint64_t begin = first; begin <= last; begin += piece) {
      const std::uint64_t end = std::min<std::uint64_t>(begin + piece - 1, last);
      ranges.push_back({element, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), code});
    }
  };
  for (const golden::Interval& i : golden::intervals(element)) add(i.lowest, i.highest, i.code);
  add(0x7f800001u, 0x7fffffffu, golden::nan_code(element));
  add(0xff800001u, 0xffffffffu, golden::nan_code(element));
}

/// Works through the ranges on two threads; each range has its own tally, so that the report does not depend on who was first.
class Exhaustive {
 public:
  Exhaustive(const Context& context, std::vector<Range> ranges)
      : context_(context), ranges_(std::move(ranges)), tallies_(ranges_.size()) {}

  Status run() {
    std::vector<std::thread> threads;
    try {
      for (unsigned k = 1; k < std::min(2u, std::max(1u, std::thread::hardware_concurrency())); ++k) {
        threads.emplace_back([this] { work(false); });
      }
    } catch (const std::system_error&) {
      // Fewer threads than wanted: this one does the rest.
    }
    work(true);
    for (std::thread& thread : threads) thread.join();
    return status_;
  }

  golden::Tally total(Element element) const {
    golden::Tally sum;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].element == element) sum.add(tallies_[i]);
    }
    return sum;
  }

 private:
  void work(bool speaks) {
    for (std::size_t i = next_++; i < ranges_.size() && !failed_; i = next_++) {
      const Range& r = ranges_[i];
      const Status status = golden::check_range(context_.subject, r.element, r.first_bits, r.last_bits, r.expected, tallies_[i]);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        status_ = status;
        failed_ = true;
      }
      if (speaks) {
        context_.report(static_cast<std::int64_t>(i), static_cast<std::int64_t>(ranges_.size()),
                        std::string("all 2^32 inputs of ") + golden::element_name(r.element));
      }
    }
  }

  const Context& context_;
  std::vector<Range> ranges_;
  std::vector<golden::Tally> tallies_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
};

/// Borders of all codes and one place on both sides, every 16-bit prefix with the tails that round differently, random bits.
std::vector<std::uint32_t> cover(std::span<const golden::Interval> table, std::uint64_t seed) {
  std::vector<std::uint32_t> all;
  for (const golden::Interval& i : table) {
    for (const std::uint32_t b : {i.lowest, i.highest}) all.insert(all.end(), {b - 1, b, b + 1});
  }
  for (std::uint32_t prefix = 0; prefix <= 0xffffu; ++prefix) {
    for (const std::uint32_t tail : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) all.push_back((prefix << 16) | tail);
  }
  Random random(seed);
  for (int k = 0; k < (1 << 20); ++k) all.push_back(static_cast<std::uint32_t>(random.bits() >> 32));
  return all;
}

std::string conversion(Element element) { return std::string(golden::element_name(element)) + " conversion"; }

Status check_tabled(Context& context) {
  std::vector<Range> ranges;
  for (const Element element : tabled) {
    golden::Tally tally;
    const auto table = golden::intervals(element);
    context.report(0, 1, conversion(element));
    if (context.options.exhaustive) {
      add_ranges(element, ranges);
    } else {
      if (Status s = golden::check_values(context.subject, element, table, cover(table, context.options.seed), tally); !s.ok())
        return s;
      context.add(conversion(element), "table", tally);
    }
  }
  if (!context.options.exhaustive) return Status();
  Exhaustive all(context, std::move(ranges));
  if (Status status = all.run(); !status.ok()) return status;
  for (const Element element : tabled) context.add(conversion(element), "table", all.total(element));
  return Status();
}

/// E8M0: what a quotient of amax becomes. The table holds finite, non-negative numbers.
Status check_e8m0(Context& context) {
  std::vector<std::uint32_t> bits;
  Random random(context.options.seed);
  for (const golden::Interval& i : golden::intervals(Element::e8m0)) {
    bits.insert(bits.end(), {i.lowest, i.lowest + 1 > i.highest ? i.highest : i.lowest + 1,
                             i.highest - (i.highest > i.lowest ? 1u : 0u), i.highest});
    for (int k = 0; k < 64; ++k)
      bits.push_back(i.lowest + static_cast<std::uint32_t>(random.bits() % (i.highest - i.lowest + 1ull)));
  }
  golden::Tally tally;
  const Status status = golden::check_values(context.subject, Element::e8m0, golden::intervals(Element::e8m0), bits, tally);
  context.add(conversion(Element::e8m0), "table", tally);
  return status;
}

/// Conversions without a table, and stochastic ones: both backends on the same inputs.
Status check_with_peer(Context& context, Element element, Rounding rounding) {
  std::vector<float> in;
  for (const std::uint32_t b : cover(golden::intervals(element), context.options.seed + 1)) in.push_back(std::bit_cast<float>(b));
  const RoundingKey key{.seed = context.options.seed, .tensor_id = 5, .sender = 2, .step = 11};
  const std::uint64_t first_index = (std::uint64_t{1} << 33) + 3;  // counters beyond 32 bits, not a multiple of 4
  std::vector<std::uint16_t> got(in.size(), 0xa5a5), expected(in.size(), 0x5a5a);
  if (Status s = context.subject.convert(element, rounding, key, first_index, in, got); !s.ok()) return s;
  if (Status s = context.peer.convert(element, rounding, key, first_index, in, expected); !s.ok()) return s;
  VerifyRow& row = context.row(conversion(element) + (rounding == Rounding::sr ? ", stochastic" : ""), context.peer_name);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ++row.compared;
    if (got[i] == expected[i]) continue;
    ++row.different;
    if (row.first.empty()) {
      row.first = "input " + golden::hex(std::bit_cast<std::uint32_t>(in[i]), 8) + ", index " + std::to_string(first_index + i) +
                  ": got " + golden::hex(got[i], 4) + ", expected " + golden::hex(expected[i], 4);
    }
  }
  return Status();
}

/// Widening BF16 and F16 is exact, so all 2^16 codes are compared.
Status check_widening(Context& context, Element element) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t c = 0; c < codes.size(); ++c) codes[c] = static_cast<std::uint16_t>(c);
  std::vector<float> got(codes.size(), 1e9f), expected(codes.size());
  if (Status s = context.subject.expand(element, codes, got); !s.ok()) return s;
  if (Status s = context.peer.expand(element, codes, expected); !s.ok()) return s;
  compare_floats(context.row(std::string(golden::element_name(element)) + " values", context.peer_name), got, expected, "codes");
  return Status();
}

}  // namespace

Status verify_elements(Context& context) {
  if (Status s = check_tabled(context); !s.ok()) return s;
  for (const Element element : {Element::e4m3, Element::e5m2, Element::e2m1, Element::e8m0}) {
    golden::Tally tally;
    if (Status s = golden::check_decode(context.subject, element, golden::values(element), tally); !s.ok()) return s;
    context.add(std::string(golden::element_name(element)) + " values", "table", tally);
  }
  if (Status s = check_e8m0(context); !s.ok()) return s;
  for (const Element element : {Element::bf16, Element::f16}) {
    if (Status s = check_with_peer(context, element, Rounding::rne); !s.ok()) return s;
    if (Status s = check_widening(context, element); !s.ok()) return s;
  }
  for (const Element element : {Element::e4m3, Element::e5m2, Element::e2m1}) {
    if (Status s = check_with_peer(context, element, Rounding::sr); !s.ok()) return s;
  }
  return Status();
}

}  // namespace gift::verification
