// Strict numbers in, short numbers out.
#include "numbers.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gift::cli {
namespace {

Status refuse(std::string_view text, const char* rule) {
  return {Code::invalid_argument, "'" + std::string(text) + "' is not " + rule};
}

bool parse_digits(std::string_view text, std::int64_t& value) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

std::string printed(const char* pattern, int digits, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, digits, value);
  return text;
}

}  // namespace

Result<std::int64_t> parse_size(std::string_view text) {
  static constexpr char rule[] = "a size: digits, then nothing, K, M or G (powers of 1024)";
  int shift = 0;
  std::string_view digits = text;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift) digits.remove_suffix(1);
  }
  std::int64_t value = 0;
  if (!parse_digits(digits, value)) return refuse(text, rule);
  if (value > std::numeric_limits<std::int64_t>::max() >> shift) return refuse(text, "a size below 2^63");
  return value << shift;
}

Result<std::int64_t> parse_count(std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  if (!parse_digits(text, value)) return refuse(text, "a whole number");
  if (value < least) return Status(Code::invalid_argument, "'" + std::string(text) + "' is less than " + std::to_string(least));
  return value;
}

Result<double> parse_real(std::string_view text) {
  double value = 0;
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return refuse(text, "a finite number");
  return value;
}

Result<double> parse_percent(std::string_view text) {
  static constexpr char rule[] = "a percentage such as 2% or 0.5%";
  if (text.empty() || text.back() != '%') return refuse(text, rule);
  const auto number = parse_real(text.substr(0, text.size() - 1));
  if (!number.ok() || *number < 0 || std::signbit(*number)) return refuse(text, rule);
  return *number / 100;
}

Result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma == begin) return refuse(text, "a list: items between commas, none of them empty");
    items.emplace_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return items;
}

std::string format_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::fabs(bytes) >= 1024 && unit < 4) bytes /= 1024, ++unit;
  const bool whole = bytes == std::floor(bytes) || std::fabs(bytes) >= 100;
  return printed("%.*f ", whole ? 0 : 1, bytes) + units[unit];
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  char text[64];
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof text, "%.0f ms", seconds * 1e3);
  } else if (seconds < 59.95) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    const auto whole = static_cast<long long>(std::min(seconds, 1e9) + 0.5);
    if (whole < 3600) {
      std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
    } else {
      std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
    }
  }
  return text;
}

std::string format_real(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return "0";
  const double magnitude = std::fabs(value);
  if (magnitude < 1e-4 || magnitude >= 1e7) return printed("%.*e", digits - 1, value);
  // Decimals counted after rounding to `digits` places, so that 0.9999 does not print as 1.0000 with one digit too many.
  const std::string scientific = printed("%.*e", digits - 1, value);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  return printed("%.*f", std::max(0, digits - 1 - exponent), value);
}

std::string format_count(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t place = text.size(); place > 3;) text.insert(place -= 3, 1, ' ');
  return text;
}

}  // namespace gift::cli
