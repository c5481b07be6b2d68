// Recipes: TOML in and out, messages that point at the fault, and which rule a tensor gets.
#include "../catch.hpp"
#include "../scratch.hpp"
#include "gift/recipe.hpp"

namespace {

using gift::Choice;
using gift::Format;
using gift::GeometryKind;
using gift::Recipe;
using gift::Side;

Recipe must_parse(const std::string& text) {
  auto recipe = gift::parse_recipe(text, "r.toml");
  INFO(recipe.status().message());
  REQUIRE(recipe.ok());
  return *recipe;
}

std::string fault(const std::string& text) {
  const auto recipe = gift::parse_recipe(text, "r.toml");
  REQUIRE_FALSE(recipe.ok());
  CHECK(recipe.status().code() == gift::Code::bad_file);
  CHECK(recipe.status().message().find('\n') == std::string::npos);
  return recipe.status().message();
}

const char* full = R"(# all there is
format = "nvfp4"
geometry = { kind = "deflate", side = "both", rank = 32 }
error_feedback = true
op = "sum"
schedule = "two-shot"
seed = 7
exempt_below = 100

[[rule]]
match = "*.fc2.weight"
format = "e4m3:tensor:sr"
geometry = { kind = "whiten", rank = 16, exponent = 0.25, damping = 0.1 }
error_feedback = false
matrix = "stack"

[[rule]]
match = "router[0-9].*"
exempt = true

[[rule]]
match = "*.bias"
exempt = false
geometry = "hadamard"
)";

}  // namespace

TEST_CASE("recipe: defaults of an empty file") {
  const Recipe recipe = must_parse("");
  CHECK(recipe == Recipe());
  CHECK(recipe.format == *gift::parse_format("e4m3:block:128"));
  CHECK(recipe.geometry.kind == GeometryKind::euclidean);
  CHECK_FALSE(recipe.error_feedback);
  CHECK(recipe.op == gift::ReduceOp::mean);
  CHECK(recipe.exempt_below == 4096);
}

TEST_CASE("recipe: every key is read") {
  const Recipe recipe = must_parse(full);
  CHECK(recipe.format.format == Format::nvfp4);
  CHECK(recipe.geometry.kind == GeometryKind::deflate);
  CHECK(recipe.geometry.side == Side::both);
  CHECK(recipe.geometry.rank == 32);
  CHECK(recipe.error_feedback);
  CHECK(recipe.op == gift::ReduceOp::sum);
  CHECK(recipe.seed == 7);
  CHECK(recipe.exempt_below == 100);
  REQUIRE(recipe.rules.size() == 3);
  CHECK(gift::to_string(*recipe.rules[0].format) == "e4m3:tensor:sr");
  CHECK(recipe.rules[0].geometry->side == Side::right);
  CHECK(recipe.rules[0].geometry->exponent == 0.25);
  CHECK(recipe.rules[0].geometry->damping == 0.1);
  CHECK(recipe.rules[0].error_feedback == false);
  CHECK(recipe.rules[0].matrix == gift::MatrixRule::stack);
  CHECK(recipe.rules[1].exempt == true);
  CHECK_FALSE(recipe.rules[1].format.has_value());
  CHECK(recipe.rules[2].geometry->kind == GeometryKind::hadamard);
}

TEST_CASE("recipe: canonical text comes back as the same recipe, and is a fixed point") {
  std::vector<Recipe> recipes = {Recipe(), must_parse(full)};
  Recipe odd;
  odd.seed = 0xFFFFFFFFFFFFFFFFu;
  odd.geometry = {GeometryKind::whiten, Side::both, 2147483647, 1.0, 1e-300};
  odd.rules.emplace_back().match = "quote\" back\\slash \x01 tab\t \xC3\xA9";
  odd.rules.emplace_back().geometry = gift::GeometrySpec{GeometryKind::hadamard, Side::right, 0, 0.5, 1.0, 64};
  odd.rules.back().match = "b";
  recipes.push_back(odd);
  for (const Recipe& recipe : recipes) {
    const std::string text = gift::to_toml(recipe);
    INFO(text);
    const Recipe back = must_parse(text);
    CHECK(back == recipe);
    CHECK(gift::to_toml(back) == text);
  }
  CHECK(gift::to_toml(must_parse("seed=7\ngeometry={rank=8,kind='deflate'}")) ==
        "format = \"e4m3\"\n"
        "geometry = { kind = \"deflate\", side = \"right\", rank = 8 }\n"
        "error_feedback = false\nop = \"mean\"\nschedule = \"two-shot\"\nseed = 7\nexempt_below = 4096\n");
}

TEST_CASE("recipe: saved and loaded") {
  const gift::tests::Scratch scratch;
  const Recipe recipe = must_parse(full);
  REQUIRE(gift::save_recipe(recipe, scratch / "r.toml").ok());
  CHECK(*gift::load_recipe(scratch / "r.toml") == recipe);
  CHECK(gift::load_recipe(scratch / "none.toml").status().code() == gift::Code::io);
}

TEST_CASE("recipe: faults name line, column and what is valid") {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"formt = 'e4m3'", "r.toml:1:1: unknown key 'formt' in the recipe; did you mean 'format'?"},
      {"\n  colour = 3",
       "r.toml:2:3: unknown key 'colour' in the recipe; valid are format, geometry, error_feedback, op, schedule, "
       "seed, exempt_below, rule"},
      {"format = 8", "r.toml:1:10: format must be text in quotes, not a whole number"},
      {"format = 'nvpf4'", "r.toml:1:10: format = 'nvpf4'; did you mean 'nvfp4'?"},
      {"format = 'int8'", "r.toml:1:10: format = 'int8'; valid are fp32, bf16, e4m3, e5m2, mxfp8, nvfp4, mxfp4"},
      {"error_feedback = 1", "r.toml:1:18: error_feedback must be true or false, not a whole number"},
      {"op = 'avg'", "r.toml:1:6: op = 'avg'; valid are mean, sum"},
      {"schedule = 'twoshot'", "r.toml:1:12: schedule = 'twoshot'; did you mean 'two-shot'?"},
      {"seed = -1", "r.toml:1:8: seed = -1 is not in 0 to 9223372036854775807"},
      {"seed = '18446744073709551616'", "r.toml:1:8: seed = '18446744073709551616' is not a whole number below 2^64"},
      {"seed = '+1'", "r.toml:1:8: seed = '+1' is not a whole number below 2^64"},
      {"exempt_below = 4096.0", "r.toml:1:16: exempt_below must be a whole number, not a number with a point"},
      {"exempt_below = -1", "r.toml:1:16: exempt_below = -1 is not in 0 to 9223372036854775807"},
      {"geometry = 'deflate'", "r.toml:1:12: deflate needs a rank: write { kind = \"deflate\", rank = 32 }"},
      {"geometry = 'deflat'", "r.toml:1:12: no geometry is called 'deflat'; did you mean 'deflate'?"},
      {"geometry = { rank = 3 }", "r.toml:1:12: geometry has no kind: euclidean, hadamard, whiten or deflate"},
      {"geometry = { kind = 'deflate' }", "r.toml:1:12: geometry deflate has no rank (32 is a usual one)"},
      {"geometry = { kind = 'deflate', rank = 0 }", "r.toml:1:39: rank = 0 is not in 1 to 2147483647"},
      {"geometry = { kind = 'deflate', rank = 8, damping = 1 }",
       "r.toml:1:42: unknown key 'damping' in geometry deflate; valid are kind, side, rank"},
      {"geometry = { kind = 'deflate', rank = 8, sides = 'left' }",
       "r.toml:1:42: unknown key 'sides' in geometry; did you mean 'side'?"},
      {"geometry = { kind = 'deflate', rank = 8, side = 'none' }", "r.toml:1:49: side = 'none'; valid are right, left, both"},
      {"geometry = { kind = 'whiten', rank = 8, exponent = 0 }", "r.toml:1:52: exponent must be above 0 and at most 1"},
      {"geometry = { kind = 'whiten', rank = 8, exponent = nan }", "r.toml:1:52: exponent must be finite"},
      {"geometry = { kind = 'whiten', rank = 8, damping = -0.5 }", "r.toml:1:51: damping must not be negative"},
      {"geometry = { kind = 'hadamard', block = 48 }", "r.toml:1:41: block = 48 is not a power of two"},
      {"geometry = { kind = 'hadamard', side = 'left' }",
       "r.toml:1:33: unknown key 'side' in geometry hadamard; valid are kind, block"},
      {"format = 'fp32'\ngeometry = 'hadamard'",
       "r.toml:2:12: the format fp32 loses nothing, so hadamard would only cost: add geometry = \"euclidean\""},
      {"geometry = 'hadamard'\n[[rule]]\nmatch = 'a'\nformat = 'fp32'",
       "r.toml:2:1: the format fp32 loses nothing, so hadamard would only cost: add geometry = \"euclidean\""},
      {"[rule]\nmatch = 'a'", "r.toml:1:1: rule must be a list: write each rule under its own [[rule]], not a table"},
      {"rule = [1]", "r.toml:1:9: a rule must be a table, not a whole number"},
      {"[[rule]]\nformat = 'e4m3'", "r.toml:1:1: this rule has no match"},
      {"[[rule]]\nmatch = ''", "r.toml:2:9: match is empty: it would fit no tensor"},
      {"[[rule]]\nmatch = 'a[bc'", "r.toml:2:9: match = 'a[bc': the '[' at character 2 is not closed"},
      {"[[rule]]\nmatch = 'a'\nmatrix = 'stak'", "r.toml:3:10: matrix = 'stak'; did you mean 'stack'?"},
      {"[[rule]]\nmatch = 'a'\nexempt = true\nformat = 'e4m3'",
       "r.toml:1:1: this rule exempts its tensors, so its format, geometry and error_feedback would do nothing"},
      {"[[rule]]\nmatch = 'a'\n[[rule]]\nmatch = 'a'", "r.toml:3:1: this rule can never apply: rule 1 matches all that 'a' does"},
      {"[[rule]]\nmatch = '*'\n[[rule]]\nmatch = 'a'", "r.toml:3:1: this rule can never apply: rule 1 matches all that 'a' does"},
      {std::string(70, 'a') + " = 1", "r.toml:1:1: unknown key '" + std::string(70, 'a') +
                                          "' in the recipe; valid are format, geometry, error_feedback, op, schedule, seed, "
                                          "exempt_below, rule"},
  };
  for (const auto& [text, message] : faults) CHECK(fault(text) == message);
  CHECK(fault("op = ").starts_with("r.toml:1:"));
  CHECK(fault("x = \"\xFF\"") == "r.toml:1:1: this line is not UTF-8");
  CHECK(fault("\n\xC3\xA9 = 1") == "r.toml:2:1: characters other than ASCII must stand in \"double quotes\" or in a comment");
  CHECK(fault("n\xEF\xBB\xBBorm = 1") ==
        "r.toml:1:1: characters other than ASCII must stand in \"double quotes\" or in a comment");
  CHECK(fault("op = \"\"\"\xC3\xA9\"\"\"") ==
        "r.toml:1:1: characters other than ASCII must stand in \"double quotes\" or in a comment");
  CHECK(fault("op = 'sum' # \xC3\xA9 'quote\nop \"").starts_with("r.toml:2:"));
  for (const char* header : {"[=]", "[[=]]", "[[\x01]]", "[;", "[*]", "[a.=]"}) CHECK(fault(header).starts_with("r.toml:1:"));
  CHECK(fault("op = 'sum'\nop = 'mean'").starts_with("r.toml:2:"));
  CHECK(fault("op = \"\xFF\"").starts_with("r.toml:1:"));
  CHECK(fault(std::string("op\0 = 'sum'", 11)).starts_with("r.toml:1:"));
}

TEST_CASE("recipe: text beyond ASCII in comments and in quotes") {
  const Recipe recipe = must_parse(
      "# \xC3\xBC\xE4\xB8\xAD 'x\nop = 'sum' # \xEF\xBB\xBB\n[[rule]]\nmatch = \"\\\"#\xC3\xA9\"\n"
      "[[rule]]\nmatch = \"\xEF\xBB\xBB\\\\\xF0\x9F\x98\x80\"");
  CHECK(recipe.op == gift::ReduceOp::sum);
  CHECK(recipe.rules[0].match == "\"#\xC3\xA9");
  CHECK(recipe.rules[1].match == "\xEF\xBB\xBB\\\xF0\x9F\x98\x80");
  CHECK(fault("op = '\xC3\xA9'") == "r.toml:1:1: characters other than ASCII must stand in \"double quotes\" or in a comment");
  CHECK(fault("op = \"\\\xC3\xA9\"") == "r.toml:1:1: a backslash in front of a character that needs none");
  CHECK(fault("match = 0\"\xC3\xA9\xEF\xBB\xBB\"").starts_with("r.toml:1:"));
  CHECK(must_parse("\xEF\xBB\xBFop = 'sum'\r\n").op == gift::ReduceOp::sum);
}

TEST_CASE("recipe: nesting and size cannot exhaust the stack or memory") {
  std::string dotted = "a";
  for (int i = 0; i < 500000; ++i) dotted += ".a";
  CHECK(fault(dotted.substr(0, 900001) + " = 1") == "r.toml:1:1: more dots than a line of a recipe can need");
  CHECK(fault("x = " + std::string(100000, '[')).starts_with("r.toml:1:"));
  CHECK(fault("rule = " + std::string(500, '[') + std::string(500, ']')).starts_with("r.toml:1:"));
  CHECK(fault(std::string(2 << 20, ' ')) == "r.toml: 2097152 bytes, too long for a recipe");
}

TEST_CASE("recipe: patterns match whole names, the same in every locale") {
  using gift::name_matches;
  CHECK(name_matches("*", ""));
  CHECK(name_matches("*.fc2.weight", "layers.1.fc2.weight"));
  CHECK_FALSE(name_matches("*.fc2", "layers.1.fc2.weight"));
  CHECK_FALSE(name_matches("fc2", "fc2.weight"));
  CHECK(name_matches("a/*", "a/b/c"));
  CHECK(name_matches("layers.?.x", "layers.7.x"));
  CHECK_FALSE(name_matches("layers.?.x", "layers.17.x"));
  CHECK(name_matches("l[0-3].*", "l2.x"));
  CHECK_FALSE(name_matches("l[!0-3].*", "l2.x"));
  CHECK(name_matches("l[!0-3].*", "lx.x"));
  CHECK(name_matches("[]x]", "]"));
  CHECK(name_matches("[!]x]", "a"));
  CHECK_FALSE(name_matches("[!]x]", "]"));
  CHECK(name_matches("[a-]", "-"));
  CHECK(name_matches("[*]", "*"));
  CHECK_FALSE(name_matches("[*]", "a"));
  CHECK_FALSE(name_matches("[ab", "a"));
  CHECK(name_matches("**a**", "xxax"));
  CHECK_FALSE(name_matches("", "a"));
  CHECK(name_matches("", ""));
  CHECK(name_matches("\xC3?", "\xC3\xA9"));
  std::string stars, name(5000, 'a');
  for (int i = 0; i < 50; ++i) stars += "*a";
  CHECK_FALSE(name_matches(stars + "*b", name));  // a backtracking matcher would not return
}

TEST_CASE("recipe: what a tensor gets") {
  const Recipe recipe = must_parse(full);
  Choice choice = gift::choose(recipe, "layers.0.fc1.weight", {64, 64});
  CHECK(choice.format.format == Format::nvfp4);
  CHECK(choice.geometry.side == Side::both);
  CHECK(choice.error_feedback);
  CHECK_FALSE(choice.exempt);

  choice = gift::choose(recipe, "layers.0.fc2.weight", {64, 64});
  CHECK(gift::to_string(choice.format) == "e4m3:tensor:sr");
  CHECK(choice.geometry.kind == GeometryKind::whiten);
  CHECK_FALSE(choice.error_feedback);
  CHECK(choice.matrix == gift::MatrixRule::stack);

  choice = gift::choose(recipe, "router7.weight", {64, 64});  // exempt by rule
  CHECK(choice.exempt);
  CHECK(choice.format.format == Format::bf16);
  CHECK(choice.geometry.kind == GeometryKind::euclidean);
  CHECK_FALSE(choice.error_feedback);

  choice = gift::choose(recipe, "norm.weight", {8192});  // exempt because 1-D: FP32
  CHECK(choice.exempt);
  CHECK(choice.format.format == Format::fp32);
  CHECK(gift::choose(recipe, "scalar", {}).format.format == Format::fp32);
  CHECK(gift::choose(recipe, "small", {9, 11}).format.format == Format::bf16);
  CHECK_FALSE(gift::choose(recipe, "not.small", {10, 10}).exempt);
  CHECK(gift::choose(recipe, "empty", {0, 4096}).exempt);
  CHECK_FALSE(gift::choose(recipe, "huge", {1LL << 40, 1LL << 40}).exempt);

  choice = gift::choose(recipe, "layers.0.bias", {8192});  // un-exempted by rule
  CHECK_FALSE(choice.exempt);
  CHECK(choice.geometry.kind == GeometryKind::hadamard);
  CHECK(choice.format.format == Format::nvfp4);
}

TEST_CASE("recipe: embeddings keep off the left side unless their rule says so") {
  Recipe recipe = must_parse("geometry = { kind = 'deflate', side = 'both', rank = 32 }");
  for (const char* name : {"model.embed_tokens.weight", "tok_embeddings.weight", "Embedding", "transformer.wte.weight", "wte"}) {
    CHECK(gift::choose(recipe, name, {256, 256}).geometry.side == Side::right);
  }
  for (const char* name : {"layers.newterm.weight", "layers.wtexture", "head.weight"}) {
    CHECK(gift::choose(recipe, name, {256, 256}).geometry.side == Side::both);
  }
  recipe.geometry.side = Side::left;
  CHECK(gift::choose(recipe, "embed", {256, 256}).geometry == gift::GeometrySpec{});
  recipe = must_parse(
      "geometry = { kind = 'deflate', side = 'both', rank = 32 }\n[[rule]]\nmatch = '*embed*'\n"
      "geometry = { kind = 'deflate', side = 'left', rank = 4 }");
  CHECK(gift::choose(recipe, "embed", {256, 256}).geometry.side == Side::left);
}
