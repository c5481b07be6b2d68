// A recipe: what a user chose, as read from TOML. Rules match tensor names; the first rule that matches wins, and what it leaves
// out comes from the defaults.
//
//   format = "e4m3:block:128"       # any text of parse_format (format.hpp)
//   geometry = { kind = "deflate", side = "both", rank = 32 }
//   error_feedback = true           # default false
//   op = "mean"                     # or "sum"
//   schedule = "two-shot"
//   seed = 7                        # of stochastic rounding; from 2^63 on in quotes
//   exempt_below = 4096             # tensors with fewer elements travel in BF16
//
//   [[rule]]
//   match = "*.fc2.weight"          # '*' any run, '?' one byte, '[a-z]' or '[!a-z]' one of a set; '[*]' for a star itself
//   format = "nvfp4"
//   geometry = { kind = "whiten", side = "right", rank = 32, exponent = 0.25, damping = 0.1 }
//   error_feedback = false
//   matrix = "stack"                # "automatic", "stack", "convolution"
//
//   [[rule]]
//   match = "router.*"
//   exempt = true                   # false: not even tensors that are exempt by themselves
//
// Characters other than ASCII may stand in comments and in "double quotes".
// Every key may be left out but `match` of a rule, and `kind` and, for whiten and deflate, `rank` of a geometry. Keys of a
// geometry: hadamard: block; whiten: side, rank, exponent (p, in (0, 1]), damping (delta, >= 0); deflate: side, rank. A geometry
// without options may be written as its name: geometry = "euclidean".
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
GIFT_API const char* schedule_name(Schedule schedule) noexcept;  ///< "two-shot"
GIFT_API const char* reduce_op_name(ReduceOp op) noexcept;       ///< "mean", "sum"

/// How a tensor of three or more dimensions is read as a matrix (plan.hpp, `matrix_view`).
enum class MatrixRule : std::uint8_t { automatic = 0, stack = 1, convolution = 2 };
GIFT_API const char* matrix_rule_name(MatrixRule rule) noexcept;  ///< "automatic", "stack", "convolution"

/// One rule of a recipe. Unset fields come from the recipe's defaults.
struct Rule {
  std::string match;  ///< pattern over the whole tensor name, see `name_matches`
  std::optional<FormatSpec> format;
  std::optional<GeometrySpec> geometry;  ///< the geometry as a whole is replaced, not merged
  std::optional<bool> error_feedback;
  std::optional<bool> exempt;  ///< true: FP32 if 1-D, else BF16, euclidean; false: no automatic exemption
  std::optional<MatrixRule> matrix;

  bool operator==(const Rule&) const = default;
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
  bool operator==(const Recipe&) const = default;
};

/// What applies to one tensor.
struct Choice {
  FormatSpec format;
  GeometrySpec geometry;
  bool error_feedback = false;
  bool exempt = false;
  MatrixRule matrix = MatrixRule::automatic;
};

/// Whether a pattern fits a whole name, byte by byte: '*' any run (dots and slashes too), '?' one byte, '[a-z]' and '[!a-z]' one
/// of a set. Unlike a shell's it is the same in every locale, so that ranks cannot disagree, and takes no more than
/// |pattern| * |name| steps.
GIFT_API bool name_matches(std::string_view pattern, std::string_view name) noexcept;

/// The choice for a tensor of this name and shape: the first rule that matches, then the defaults. Exempt: what the rule says;
/// else 0-D and 1-D tensors (FP32) and those under `exempt_below` elements (BF16), euclidean without error feedback. Embeddings
/// (a name that holds "embed" in any case, or has "wte" between its dots) never get the left side by default, because most of
/// their rows are zero and change from step to step: both becomes right, left becomes euclidean, unless their rule names a
/// geometry.
GIFT_API Choice choose(const Recipe& recipe, std::string_view name, const std::vector<std::int64_t>& shape);

/// TOML text or file to a recipe. Unknown keys, wrong types, numbers out of range and rules that can never apply are errors that
/// begin with "ORIGIN:LINE:COLUMN: " and suggest what is valid.
GIFT_API Result<Recipe> parse_recipe(std::string_view toml, const std::string& origin);
GIFT_API Result<Recipe> load_recipe(const std::string& path);

/// Canonical TOML: equal recipes give equal text, and parse_recipe gives a valid recipe back (of a geometry, the fields that its
/// kind has).
GIFT_API std::string to_toml(const Recipe& recipe);
GIFT_API Status save_recipe(const Recipe& recipe, const std::string& path);

}  // namespace gift
