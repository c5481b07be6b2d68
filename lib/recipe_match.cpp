// Which rule a tensor falls under, and what follows from it.
#include <algorithm>
#include <cctype>

#include "gift/recipe.hpp"
#include "recipe_internal.hpp"

namespace gift {
namespace {

/// The set that starts at pattern[at] == '[': its end (just behind ']') and whether `c` is in it; end 0 if it is not closed.
struct SetMatch {
  std::size_t end = 0;
  bool in = false;
};

SetMatch match_set(std::string_view pattern, std::size_t at, char c) noexcept {
  const auto byte = [](char x) { return static_cast<unsigned char>(x); };
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  bool in = false;
  for (std::size_t first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) return {i + 1, in != negated};  // a ']' in first place stands for itself
    const bool range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    const char low = pattern[i], high = range ? pattern[i + 2] : pattern[i];
    in = in || (byte(low) <= byte(c) && byte(c) <= byte(high));
    if (range) i += 2;
  }
  return {};
}

bool contains_embed(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("embed") != std::string::npos;
}

bool has_segment(std::string_view name, std::string_view segment) noexcept {
  for (;;) {
    const std::size_t dot = name.find('.');
    if (name.substr(0, dot) == segment) return true;
    if (dot == std::string_view::npos) return false;
    name.remove_prefix(dot + 1);
  }
}

/// SPEC section 9: embeddings are exempt from the left side, both of deflation and of whitening.
GeometrySpec without_left(const GeometrySpec& geometry) {
  GeometrySpec out = geometry;
  if (geometry.side == Side::both) out.side = Side::right;
  if (geometry.side == Side::left) out = GeometrySpec{};
  return out;
}

/// Fewer than `limit` elements; extents whose product does not fit are many.
bool is_small(const std::vector<std::int64_t>& shape, std::int64_t limit) noexcept {
  std::int64_t elements = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return limit > 0;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return false;
  }
  return elements < limit;
}

}  // namespace

std::size_t unclosed_set(std::string_view pattern) noexcept {
  for (std::size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '[') {
      ++i;
      continue;
    }
    const SetMatch set = match_set(pattern, i, '\0');
    if (set.end == 0) return i;
    i = set.end;
  }
  return std::string_view::npos;
}

bool name_matches(std::string_view pattern, std::string_view name) noexcept {
  // Greedy with one point of return: on a mismatch only the last '*' has to take one byte more.
  std::size_t p = 0, n = 0, star = std::string_view::npos, star_n = 0;
  while (n < name.size()) {
    bool fits = false;
    std::size_t next = p + 1;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_n = n;
      continue;
    }
    if (p < pattern.size() && pattern[p] == '[') {
      const SetMatch set = match_set(pattern, p, name[n]);
      fits = set.end != 0 && set.in;
      next = set.end;
    } else if (p < pattern.size()) {
      fits = pattern[p] == '?' || pattern[p] == name[n];
    }
    if (fits) {
      p = next;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_n;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Choice choose(const Recipe& recipe, std::string_view name, const std::vector<std::int64_t>& shape) {
  const auto rule =
      std::find_if(recipe.rules.begin(), recipe.rules.end(), [&](const Rule& r) { return name_matches(r.match, name); });
  const Rule none;
  const Rule& chosen = rule == recipe.rules.end() ? none : *rule;

  Choice choice;
  const bool embedding = contains_embed(name) || has_segment(name, "wte");
  choice.format = chosen.format.value_or(recipe.format);
  choice.geometry = chosen.geometry.value_or(embedding ? without_left(recipe.geometry) : recipe.geometry);
  choice.error_feedback = chosen.error_feedback.value_or(recipe.error_feedback);
  choice.matrix = chosen.matrix.value_or(MatrixRule::automatic);

  const bool vector = shape.size() <= 1;
  choice.exempt = chosen.exempt.value_or(vector || is_small(shape, recipe.exempt_below));
  if (choice.exempt) {
    choice.format = FormatSpec{};
    choice.format.format = vector ? Format::fp32 : Format::bf16;
    choice.geometry = GeometrySpec{};
    choice.error_feedback = false;
  }
  return choice;
}

}  // namespace gift
