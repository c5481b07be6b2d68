// Recipe to canonical TOML: fixed order of keys, every default spelled out, one way to write each value.
#include <charconv>
#include <cstdint>
#include <limits>

#include "gift/recipe.hpp"
#include "gift/safetensors.hpp"

namespace gift {
namespace {

std::string toml_string(std::string_view text) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// The shortest text that reads back as the same number, in TOML's form of a float.
std::string toml_real(double value) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos && text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

const char* toml_bool(bool value) { return value ? "true" : "false"; }

std::string toml_geometry(const GeometrySpec& geometry) {
  std::string out = "{ kind = " + toml_string(geometry_name(geometry.kind));
  const bool based = geometry.kind == GeometryKind::whiten || geometry.kind == GeometryKind::deflate;
  if (based) out += ", side = " + toml_string(side_name(geometry.side)) + ", rank = " + std::to_string(geometry.rank);
  if (geometry.kind == GeometryKind::whiten) {
    out += ", exponent = " + toml_real(geometry.exponent) + ", damping = " + toml_real(geometry.damping);
  }
  if (geometry.kind == GeometryKind::hadamard && geometry.hadamard_block != 0) {
    out += ", block = " + std::to_string(geometry.hadamard_block);
  }
  return out + " }";
}

/// A TOML integer ends at 2^63 - 1; what lies beyond is written in quotes.
std::string toml_seed(std::uint64_t seed) {
  const bool fits = seed <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return fits ? std::to_string(seed) : toml_string(std::to_string(seed));
}

std::string toml_rule(const Rule& rule) {
  std::string out = "\n[[rule]]\nmatch = " + toml_string(rule.match) + "\n";
  if (rule.format) out += "format = " + toml_string(to_string(*rule.format)) + "\n";
  if (rule.geometry) out += "geometry = " + toml_geometry(*rule.geometry) + "\n";
  if (rule.error_feedback) out += std::string("error_feedback = ") + toml_bool(*rule.error_feedback) + "\n";
  if (rule.exempt) out += std::string("exempt = ") + toml_bool(*rule.exempt) + "\n";
  if (rule.matrix) out += "matrix = " + toml_string(matrix_rule_name(*rule.matrix)) + "\n";
  return out;
}

}  // namespace

std::string to_toml(const Recipe& recipe) {
  std::string out = "format = " + toml_string(to_string(recipe.format)) + "\n";
  out += "geometry = " + toml_geometry(recipe.geometry) + "\n";
  out += std::string("error_feedback = ") + toml_bool(recipe.error_feedback) + "\n";
  out += "op = " + toml_string(reduce_op_name(recipe.op)) + "\n";
  out += "schedule = " + toml_string(schedule_name(recipe.schedule)) + "\n";
  out += "seed = " + toml_seed(recipe.seed) + "\n";
  out += "exempt_below = " + std::to_string(recipe.exempt_below) + "\n";
  for (const Rule& rule : recipe.rules) out += toml_rule(rule);
  return out;
}

Status save_recipe(const Recipe& recipe, const std::string& path) {
  const std::string text = to_toml(recipe);
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace gift
