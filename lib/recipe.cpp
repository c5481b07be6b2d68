// TOML to recipe: the file as a whole, its defaults and its rules.
#include "gift/recipe.hpp"

#include <limits>

#include "gift/safetensors.hpp"
#include "recipe_internal.hpp"
#include "recipe_reader.hpp"

namespace gift {
namespace {

template <class E, std::size_t N>
const char* name_in(const std::array<const char*, N>& names, E value) noexcept {
  const auto i = static_cast<std::size_t>(value);
  return i < N ? names[i] : "unknown";
}

std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return out;
}

}  // namespace

bool RecipeReader::check_pair(const toml::node& where, const FormatSpec& format, const GeometrySpec& geometry) {
  if (format.format != Format::fp32 || geometry.kind == GeometryKind::euclidean) return true;
  return fail(where.source(), std::string("the format fp32 loses nothing, so ") + geometry_name(geometry.kind) +
                                  " would only cost: add geometry = \"euclidean\"");
}

bool RecipeReader::read_match(const toml::table& table, std::string& out) {
  const toml::node* node = table.get("match");
  if (node == nullptr) return fail(table.source(), "this rule has no match");
  if (!read_text(*node, "match", out)) return false;
  if (out.empty()) return fail(node->source(), "match is empty: it would fit no tensor");
  const std::size_t at = unclosed_set(out);
  if (at == std::string_view::npos) return true;
  return fail(node->source(),
              "match = " + in_quotes(out) + ": the '[' at character " + std::to_string(at + 1) + " is not closed");
}

bool RecipeReader::read_rule(const toml::table& table, Rule& rule) {
  if (!check_keys(table, {"match", "format", "geometry", "error_feedback", "exempt", "matrix"}, "a rule")) return false;
  const auto read_all = [&] {
    return read_match(table, rule.match) &&
           if_given(table, "format", [&](const toml::node& node) { return read_format(node, rule.format.emplace()); }) &&
           if_given(table, "geometry", [&](const toml::node& node) { return read_geometry(node, rule.geometry.emplace()); }) &&
           if_given(table, "error_feedback",
                    [&](const toml::node& node) { return read_bool(node, "error_feedback", rule.error_feedback.emplace()); }) &&
           if_given(table, "exempt", [&](const toml::node& node) { return read_bool(node, "exempt", rule.exempt.emplace()); }) &&
           if_given(table, "matrix",
                    [&](const toml::node& node) { return read_word(node, "matrix", matrix_rule_names, rule.matrix.emplace()); });
  };
  if (!read_all()) return false;
  const bool idle = rule.exempt.value_or(false) && (rule.format || rule.geometry || rule.error_feedback.value_or(false));
  return !idle ||
         fail(table.source(), "this rule exempts its tensors, so its format, geometry and error_feedback would do nothing");
}

bool RecipeReader::read_rules(const toml::node& node, Recipe& recipe) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return wrong_type(node, "rule", "a list: write each rule under its own [[rule]]");
  for (const toml::node& element : *list) {
    const toml::table* table = element.as_table();
    if (table == nullptr) return wrong_type(element, "a rule", "a table");
    Rule rule;
    if (!read_rule(*table, rule)) return false;
    for (std::size_t i = 0; i < recipe.rules.size(); ++i) {
      if (recipe.rules[i].match != rule.match && recipe.rules[i].match != "*") continue;
      return fail(table->source(), "this rule can never apply: rule " + std::to_string(i + 1) + " matches all that " +
                                       in_quotes(rule.match) + " does");
    }
    const bool exempt = rule.exempt.value_or(false);
    if (!exempt && !check_pair(*table, rule.format.value_or(recipe.format), rule.geometry.value_or(recipe.geometry)))
      return false;
    recipe.rules.push_back(std::move(rule));
  }
  return true;
}

bool RecipeReader::read(const toml::table& top, Recipe& recipe) {
  const std::vector<std::string> keys = {"format",   "geometry", "error_feedback", "op",
                                         "schedule", "seed",     "exempt_below",   "rule"};
  if (!check_keys(top, keys, "the recipe")) return false;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  using Node = const toml::node&;
  return if_given(top, "format", [&](Node node) { return read_format(node, recipe.format); }) &&
         if_given(top, "geometry", [&](Node node) { return read_geometry(node, recipe.geometry); }) &&
         if_given(top, "geometry", [&](Node node) { return check_pair(node, recipe.format, recipe.geometry); }) &&
         if_given(top, "error_feedback", [&](Node node) { return read_bool(node, "error_feedback", recipe.error_feedback); }) &&
         if_given(top, "op", [&](Node node) { return read_word(node, "op", reduce_op_names, recipe.op); }) &&
         if_given(top, "schedule", [&](Node node) { return read_word(node, "schedule", schedule_names, recipe.schedule); }) &&
         if_given(top, "seed", [&](Node node) { return read_seed(node, recipe.seed); }) &&
         if_given(top, "exempt_below",
                  [&](Node node) { return read_whole(node, "exempt_below", 0, most, recipe.exempt_below); }) &&
         if_given(top, "rule", [&](Node node) { return read_rules(node, recipe); });
}

const char* schedule_name(Schedule schedule) noexcept { return name_in(schedule_names, schedule); }
const char* reduce_op_name(ReduceOp op) noexcept { return name_in(reduce_op_names, op); }
const char* matrix_rule_name(MatrixRule rule) noexcept { return name_in(matrix_rule_names, rule); }

Recipe::Recipe() {
  format.format = Format::e4m3;
  format.granularity = Granularity::block;
  format.block = 128;
}

Result<Recipe> parse_recipe(std::string_view text, const std::string& origin) {
  const std::string shown = printable(origin);
  const auto bad = [](const std::string& message) { return Status(Code::bad_file, message); };
  const Result<std::string> prepared = prepare_recipe_text(text, shown);
  if (!prepared.ok()) return prepared.status();
  const toml::parse_result parsed = toml::parse(std::string_view(*prepared));
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return bad(shown + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
               one_line(parsed.error().description()));
  }
  Recipe recipe;
  RecipeReader reader(shown);
  if (!reader.read(parsed.table(), recipe)) return bad(reader.fault);
  return recipe;
}

Result<Recipe> load_recipe(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.status();
  return parse_recipe(*text, path);
}

}  // namespace gift
