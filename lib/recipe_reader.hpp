// Reads a recipe out of a parsed TOML table, value by value. Private.
#pragma once

// toml++ 3.3 asserts (or, with NDEBUG, lets the compiler assume) what a faulty file can violate, a table header "[=]" say,
// although the code behind the assertion reports it properly. Neither an abort nor an assumption may depend on a file.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gift/recipe.hpp"
#include "text.hpp"

namespace gift {

inline constexpr std::array<const char*, 1> schedule_names = {"two-shot"};
inline constexpr std::array<const char*, 2> reduce_op_names = {"mean", "sum"};
inline constexpr std::array<const char*, 3> matrix_rule_names = {"automatic", "stack", "convolution"};

/// Reads one recipe. The first fault stops it: every function returns false on a fault, and `fault` then holds the message,
/// "ORIGIN:LINE:COLUMN: ...".
class RecipeReader {
 public:
  explicit RecipeReader(std::string origin) : origin_(std::move(origin)) {}
  bool read(const toml::table& top, Recipe& recipe);
  std::string fault;

 private:
  bool fail(const toml::source_region& where, const std::string& message);
  bool check_keys(const toml::table& table, const std::vector<std::string>& valid, const std::string& what);
  bool wrong_type(const toml::node& node, const std::string& key, const char* wanted);

  bool read_text(const toml::node& node, const std::string& key, std::string& out);
  bool read_bool(const toml::node& node, const std::string& key, bool& out);
  bool read_whole(const toml::node& node, const std::string& key, std::int64_t least, std::int64_t most, std::int64_t& out);
  bool read_real(const toml::node& node, const std::string& key, double& out);
  bool read_seed(const toml::node& node, std::uint64_t& out);
  bool read_format(const toml::node& node, FormatSpec& out);
  bool read_geometry(const toml::node& node, GeometrySpec& out);
  bool read_geometry_table(const toml::table& table, GeometrySpec& out);
  bool read_geometry_kind(const toml::table& table, GeometrySpec& out);
  bool read_match(const toml::table& table, std::string& out);
  bool read_rules(const toml::node& node, Recipe& recipe);
  bool read_rule(const toml::table& table, Rule& rule);
  bool check_pair(const toml::node& where, const FormatSpec& format, const GeometrySpec& geometry);

  /// One of `names`, as its index.
  template <class E, std::size_t N>
  bool read_word(const toml::node& node, const std::string& key, const std::array<const char*, N>& names, E& out) {
    std::string text;
    if (!read_text(node, key, text)) return false;
    const auto at = std::find(names.begin(), names.end(), text);
    if (at == names.end()) {
      return fail(node.source(),
                  key + " = " + in_quotes(text) + suggestion(text, std::vector<std::string>(names.begin(), names.end())));
    }
    out = static_cast<E>(at - names.begin());
    return true;
  }

  /// Calls `read(node)` if the table has the key.
  template <class Read>
  static bool if_given(const toml::table& table, const char* key, Read read) {
    const toml::node* node = table.get(key);
    return node == nullptr || read(*node);
  }

  std::string origin_;
};

}  // namespace gift
