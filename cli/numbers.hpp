// Strict numbers: the whole string counts, and what is not understood is refused rather than half read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gift/status.hpp"

namespace gift::cli {

/// "4096", "64K", "2M", "1G" (powers of 1024, capital or small letter). Refuses signs, fractions, "2MB", "1e6", overflow, "".
Result<std::int64_t> parse_size(std::string_view text);
/// A whole decimal number >= least, no suffix.
Result<std::int64_t> parse_count(std::string_view text, std::int64_t least);
/// A finite decimal number such as "0.25", "1e-3" or "-2".
Result<double> parse_real(std::string_view text);
/// "2%" gives 0.02. From 0% up; the sign is required, so that 2 is never taken for 200 %.
Result<double> parse_percent(std::string_view text);
/// Splits at commas; an empty item is refused.
Result<std::vector<std::string>> parse_list(std::string_view text);

/// "64 KiB", "1.5 MiB", "17 B".
std::string format_bytes(double bytes);
/// Seconds for people: "850 ms", "12.3 s", "2 min 05 s", "1 h 02 min".
std::string format_seconds(double seconds);
/// `digits` significant digits without an exponent where that is short: "0.0265", "1234", "1.23e-09"; "nan", "inf".
std::string format_real(double value, int digits);
/// Digits grouped by three: "4 294 967 296".
std::string format_count(std::uint64_t value);

}  // namespace gift::cli
