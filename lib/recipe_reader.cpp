// The values of a recipe: text, numbers, formats, geometries. Each is checked where it stands, so that a message can point at it.
#include "recipe_reader.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace gift {
namespace {

using Words = std::vector<std::string>;

constexpr double exponent_limit = 1.0;  // of whiten: p in (0, 1]
constexpr std::int64_t rank_limit = std::numeric_limits<std::int32_t>::max();

const char* type_text(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

}  // namespace

bool RecipeReader::fail(const toml::source_region& where, const std::string& message) {
  fault = origin_ + ":" + std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) + ": " + message;
  return false;
}

bool RecipeReader::check_keys(const toml::table& table, const Words& valid, const std::string& what) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(valid.begin(), valid.end(), name) != valid.end()) continue;
    return fail(key.source(), "unknown key " + in_quotes(name) + " in " + what + suggestion(name, valid));
  }
  return true;
}

bool RecipeReader::wrong_type(const toml::node& node, const std::string& key, const char* wanted) {
  return fail(node.source(), key + " must be " + wanted + ", not " + type_text(node.type()));
}

bool RecipeReader::read_text(const toml::node& node, const std::string& key, std::string& out) {
  if (!node.is_string()) return wrong_type(node, key, "text in quotes");
  out = node.as_string()->get();
  return true;
}

bool RecipeReader::read_bool(const toml::node& node, const std::string& key, bool& out) {
  if (!node.is_boolean()) return wrong_type(node, key, "true or false");
  out = node.as_boolean()->get();
  return true;
}

bool RecipeReader::read_whole(const toml::node& node, const std::string& key, std::int64_t least, std::int64_t most,
                              std::int64_t& out) {
  if (!node.is_integer()) return wrong_type(node, key, "a whole number");
  out = node.as_integer()->get();
  if (out >= least && out <= most) return true;
  return fail(node.source(),
              key + " = " + std::to_string(out) + " is not in " + std::to_string(least) + " to " + std::to_string(most));
}

bool RecipeReader::read_real(const toml::node& node, const std::string& key, double& out) {
  if (!node.is_number()) return wrong_type(node, key, "a number");
  out = node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.as_floating_point()->get();
  return std::isfinite(out) || fail(node.source(), key + " must be finite");
}

bool RecipeReader::read_seed(const toml::node& node, std::uint64_t& out) {
  if (!node.is_string()) {
    std::int64_t value = 0;
    if (!read_whole(node, "seed", 0, std::numeric_limits<std::int64_t>::max(), value)) return false;
    out = static_cast<std::uint64_t>(value);
    return true;
  }
  const std::string& text = node.as_string()->get();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole || fail(node.source(), "seed = " + in_quotes(text) + " is not a whole number below 2^64");
}

bool RecipeReader::read_format(const toml::node& node, FormatSpec& out) {
  std::string text;
  if (!read_text(node, "format", text)) return false;
  Result<FormatSpec> parsed = parse_format(text);
  if (parsed.ok()) {
    out = *parsed;
    return true;
  }
  Words names;
  for (int i = 0; i <= static_cast<int>(Format::mxfp4); ++i) names.emplace_back(format_name(static_cast<Format>(i)));
  const std::string name = text.substr(0, text.find(':'));
  const bool known = std::find(names.begin(), names.end(), name) != names.end();
  return fail(node.source(), known ? parsed.status().message() : "format = " + in_quotes(text) + suggestion(name, names));
}

bool RecipeReader::read_geometry(const toml::node& node, GeometrySpec& out) {
  if (const toml::table* table = node.as_table(); table != nullptr) return read_geometry_table(*table, out);
  if (!node.is_string()) return wrong_type(node, "geometry", "a table such as { kind = \"deflate\", rank = 32 } or a name");
  const std::string& name = node.as_string()->get();
  Result<GeometryKind> kind = parse_geometry(name);
  if (!kind.ok()) return fail(node.source(), kind.status().message());
  out = GeometrySpec{};
  out.kind = *kind;
  if (*kind == GeometryKind::hadamard) out.side = Side::right;
  const bool complete = *kind == GeometryKind::euclidean || *kind == GeometryKind::hadamard;
  return complete || fail(node.source(), name + " needs a rank: write { kind = \"" + name + "\", rank = 32 }");
}

bool RecipeReader::read_geometry_kind(const toml::table& table, GeometrySpec& out) {
  static const Words all = {"kind", "side", "rank", "exponent", "damping", "block"};
  static const std::map<GeometryKind, Words> valid = {
      {GeometryKind::euclidean, {"kind"}},
      {GeometryKind::hadamard, {"kind", "block"}},
      {GeometryKind::whiten, {"kind", "side", "rank", "exponent", "damping"}},
      {GeometryKind::deflate, {"kind", "side", "rank"}},
  };
  if (!check_keys(table, all, "geometry")) return false;
  const toml::node* node = table.get("kind");
  if (node == nullptr) return fail(table.source(), "geometry has no kind: euclidean, hadamard, whiten or deflate");
  std::string name;
  if (!read_text(*node, "kind", name)) return false;
  Result<GeometryKind> kind = parse_geometry(name);
  if (!kind.ok()) return fail(node->source(), kind.status().message());
  out.kind = *kind;
  return check_keys(table, valid.at(*kind), "geometry " + name);
}

bool RecipeReader::read_geometry_table(const toml::table& table, GeometrySpec& out) {
  out = GeometrySpec{};
  if (!read_geometry_kind(table, out)) return false;
  if (out.kind != GeometryKind::euclidean) out.side = Side::right;

  const bool based = out.kind == GeometryKind::whiten || out.kind == GeometryKind::deflate;
  if (based && table.get("rank") == nullptr) {
    return fail(table.source(), std::string("geometry ") + geometry_name(out.kind) + " has no rank (32 is a usual one)");
  }
  std::int64_t whole = 0;
  return if_given(table, "side",
                  [&](const toml::node& node) {
                    constexpr std::array<const char*, 3> sides = {"right", "left", "both"};
                    int side = 0;
                    if (!read_word(node, "side", sides, side)) return false;
                    out.side = static_cast<Side>(side + 1);
                    return true;
                  }) &&
         if_given(table, "rank",
                  [&](const toml::node& node) {
                    if (!read_whole(node, "rank", 1, rank_limit, whole)) return false;
                    out.rank = static_cast<std::int32_t>(whole);
                    return true;
                  }) &&
         if_given(table, "exponent",
                  [&](const toml::node& node) {
                    if (!read_real(node, "exponent", out.exponent)) return false;
                    const bool fits = out.exponent > 0 && out.exponent <= exponent_limit;
                    return fits || fail(node.source(), "exponent must be above 0 and at most 1");
                  }) &&
         if_given(table, "damping",
                  [&](const toml::node& node) {
                    if (!read_real(node, "damping", out.damping)) return false;
                    return out.damping >= 0 || fail(node.source(), "damping must not be negative");
                  }) &&
         if_given(table, "block", [&](const toml::node& node) {
           if (!read_whole(node, "block", 1, rank_limit, whole)) return false;
           out.hadamard_block = static_cast<std::int32_t>(whole);
           const bool power = (whole & (whole - 1)) == 0;
           return power || fail(node.source(), "block = " + std::to_string(whole) + " is not a power of two");
         });
}

}  // namespace gift
