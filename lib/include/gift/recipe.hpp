// A recipe: what a user chose, as read from TOML. Rules match tensor names; the first rule that matches wins, and what it leaves
// out comes from the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gift/export.hpp"
#include "gift/format.hpp"
#include "gift/geometry.hpp"
#include "gift/status.hpp"

namespace gift {

enum class Schedule : std::uint8_t { two_shot = 0 };
enum class ReduceOp : std::uint8_t { mean = 0, sum = 1 };

/// How a tensor of three or more dimensions is read as a matrix (plan.hpp, `matrix_view`).
enum class MatrixRule : std::uint8_t { automatic = 0, stack = 1, convolution = 2 };

/// One rule of a recipe. Unset fields come from the recipe's defaults.
struct Rule {
  std::string match;  ///< shell pattern over the tensor name: '*' (any run, dots too), '?', '[...]'
  std::optional<FormatSpec> format;
  std::optional<GeometrySpec> geometry;  ///< the geometry as a whole is replaced, not merged
  std::optional<bool> error_feedback;
  std::optional<bool> exempt;  ///< true: FP32 if 1-D, else BF16, euclidean; false: no automatic exemption
  std::optional<MatrixRule> matrix;
};

struct Recipe {
  FormatSpec format;      ///< default: e4m3:block:128
  GeometrySpec geometry;  ///< default: euclidean
  bool error_feedback = false;
  ReduceOp op = ReduceOp::mean;
  Schedule schedule = Schedule::two_shot;
  std::uint64_t seed = 0;            ///< key of stochastic rounding
  std::int64_t exempt_below = 4096;  ///< tensors with fewer elements travel in BF16
  std::vector<Rule> rules;

  GIFT_API Recipe();
};

/// What applies to one tensor.
struct Choice {
  FormatSpec format;
  GeometrySpec geometry;
  bool error_feedback = false;
  bool exempt = false;
  MatrixRule matrix = MatrixRule::automatic;
};

/// The choice for a tensor of this name and shape: rule, then defaults, then the exemptions of SPEC section 5.
GIFT_API Choice choose(const Recipe& recipe, std::string_view name, const std::vector<std::int64_t>& shape);

/// TOML text or file to a recipe. Unknown keys and wrong types are errors that name line and column.
GIFT_API Result<Recipe> parse_recipe(std::string_view toml, const std::string& origin);
GIFT_API Result<Recipe> load_recipe(const std::string& path);

/// Canonical TOML: equal recipes give equal text, and parse_recipe gives the recipe back.
GIFT_API std::string to_toml(const Recipe& recipe);
GIFT_API Status save_recipe(const Recipe& recipe, const std::string& path);

}  // namespace gift
