// Fidelity: how faithful formats and geometries are on a user's own gradients, calibrated on some files and tested on others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gift/calibrate.hpp"
#include "gift/export.hpp"
#include "gift/format.hpp"
#include "gift/geometry.hpp"
#include "gift/status.hpp"

namespace gift {

/// Four metrics of one encode and decode against the original, in FP64.
struct Metrics {
  double rel_l2 = 0;  ///< |W^ - W| / |W|; NaN if W is zero and W^ is not
  double cosine = 0;
  double max_err = 0;  ///< max |W^ - W|
  double mse = 0;
};
GIFT_API Metrics compare(const float* original, const float* decoded, std::int64_t count);

/// Where a method's U comes from.
enum class BasisOrigin : std::uint8_t {
  none = 0,
  gradients = 1,
  activations = 2,
  own = 3
};  ///< own: SVD of the tested gradient, a bound
GIFT_API const char* origin_name(BasisOrigin origin) noexcept;

/// Coordinates to try, and where their U comes from.
struct Method {
  GeometrySpec geometry;
  BasisOrigin origin = BasisOrigin::none;
  std::string label;  ///< method_label(): "deflate r 32, calibrated on gradients, right"
};
/// The rows of SPEC section 2 that need no state: euclidean, hadamard, whiten (two settings), deflate from activations, from
/// gradients (ranks 16, 32, 64; left; both sides) and from the tested gradient itself.
GIFT_API std::vector<Method> default_methods();

/// Parses "KIND[:WORD...]" with words in any order: right, left, both; gradients, activations, own; rank=32; whiten: p=0.5,
/// delta=1; hadamard: block=64. Left out: right, rank 32, whiten from activations with p 0.5 and delta 1, deflate from gradients.
GIFT_API Result<Method> parse_method(std::string_view text);
GIFT_API std::string method_label(const GeometrySpec& geometry, BasisOrigin origin);
/// What the column `coordinates` says: kind and its own parameters, without rank, side and origin: "whiten A^-0.25 delta 0.1".
GIFT_API std::string coordinates_name(const GeometrySpec& geometry);
/// Each method that has a rank, at every rank given; others once. Repeats are dropped.
GIFT_API std::vector<Method> at_ranks(const std::vector<Method>& methods, const std::vector<std::int32_t>& ranks);

/// bf16 and the formats of SPEC section 2's tables: e4m3:tensor, e4m3:block:128, mxfp8, nvfp4:row.
GIFT_API std::vector<FormatSpec> default_fidelity_formats();

struct FidelityOptions {
  std::vector<std::string> calibrate_files, test_files;
  std::vector<FormatSpec> formats;  ///< empty: default_fidelity_formats(); bf16 and fp32 are tried in euclidean coordinates only
  std::vector<Method> methods;  ///< empty: default_methods() as far as the calibration files go; else all of them, or an error
  std::vector<std::int32_t> ranks;  ///< not empty: at_ranks() of the methods
  std::string layers = "*";         ///< shell pattern over gradient names
  std::string backend = "cpu";
  std::int64_t exact_limit = 2048;
};

struct FidelityRow {
  std::string layer;  ///< "overall" (over the matrices that every method has): geometric mean of rel_l2 and
                      ///< mse, mean of bits and cosine, max of max_err
  std::string file;   ///< test file; empty for overall
  std::string coordinates, basis, side, format;  ///< coordinates_name(), origin_name(), side_name(), to_string(format)
  std::int32_t rank = 0;
  double bits_per_element = 0;  ///< scales, S and bitmaps counted, one leg, one rank
  Metrics metrics;
};

struct FidelityResult {
  std::vector<FidelityRow> rows;
  std::int64_t overall_matrices = 0;  ///< how many (file, layer) the "overall" rows stand for
  std::vector<std::string> warnings;  ///< layers left out, and why
};

/// Calibrates on some files and tests on others. Calibration files may hold gradients, activations, or be some of each; test
/// files hold gradients. Refuses a file that is in both lists, under whatever path. Matrices of at least 4096 elements are
/// tested.
GIFT_API Result<FidelityResult> fidelity(const FidelityOptions& options, const Progress& progress);

}  // namespace gift
