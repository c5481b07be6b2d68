// Quoting, UTF-8 checks and near-miss suggestions for error messages.
#include "text.hpp"

#include <algorithm>
#include <cstdint>
#include <system_error>

namespace gift {
namespace {

constexpr std::size_t quoted_limit = 160;  // bytes of a name that a message shows

/// Bytes of the UTF-8 sequence that `text` starts with; 0 if it starts with none.
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

bool is_control(char c) noexcept { return static_cast<std::uint8_t>(c) < 0x20 || c == 0x7F; }

void append_hex(std::string& out, char c) {
  constexpr char digits[] = "0123456789abcdef";
  const auto byte = static_cast<std::uint8_t>(c);
  out += "\\x";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < quoted_limit) {
    const std::size_t length = sequence_length(text.substr(at));
    if (length == 0 || is_control(text[at])) {
      append_hex(out, text[at]);
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  out += "'";
  if (at < text.size()) out += "... (" + std::to_string(text.size()) + " bytes)";
  return out;
}

std::string printable(std::string_view path) { return name_fault(path).empty() ? std::string(path) : in_quotes(path); }

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string name_fault(std::string_view name) {
  if (name.empty()) return "an empty name";
  if (std::any_of(name.begin(), name.end(), is_control)) return "a control character in the name " + in_quotes(name);
  if (!is_utf8(name)) return "a name that is not UTF-8: " + in_quotes(name);
  return "";
}

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table of Damerau and Levenshtein (optimal string alignment).
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& words) {
  constexpr std::size_t longest = 64;  // beyond it nothing can be near, and the table would be big
  const std::string* nearest = nullptr;
  int least = 0;
  for (const std::string& candidate : words) {
    if (word.size() > longest) break;
    const int distance = edit_distance(word, candidate);
    if (nearest == nullptr || distance < least) {
      nearest = &candidate;
      least = distance;
    }
  }
  const bool near = nearest != nullptr && least <= std::max<int>(1, static_cast<int>(nearest->size()) / 3);
  if (near) return "; did you mean '" + *nearest + "'?";
  return words.empty() ? "" : "; valid are " + joined(words);
}

std::string system_message(int error_number) { return std::generic_category().message(error_number); }

}  // namespace gift
