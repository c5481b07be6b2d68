// Fidelity: how faithful formats and geometries are on a user's own gradients, calibrated on some files and tested on others.
#pragma once

#include <cstdint>
#include <string>
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

struct Method {
  GeometrySpec geometry;
  BasisOrigin origin = BasisOrigin::none;
  std::string label;  ///< "deflate r 32, calibrated on gradients, right"
};
/// The rows of SPEC section 2 that need no state.
GIFT_API std::vector<Method> default_methods();

struct FidelityOptions {
  std::vector<std::string> calibrate_files, test_files;
  std::vector<FormatSpec> formats;
  std::vector<Method> methods;
  std::string layers = "*";  ///< shell pattern over gradient names
  std::string backend = "cpu";
  std::int64_t exact_limit = 2048;
};

struct FidelityRow {
  std::string layer;  ///< "overall": geometric mean of rel_l2 and mse, mean of cosine, max of max_err
  std::string file;   ///< test file; empty for overall
  std::string coordinates, basis, side, format;
  std::int32_t rank = 0;
  double bits_per_element = 0;  ///< scales, S and bitmaps counted, one leg, one rank
  Metrics metrics;
};

struct FidelityResult {
  std::vector<FidelityRow> rows;
  std::vector<std::string> warnings;  ///< layers left out, and why
};

/// Refuses a file that is in both lists.
GIFT_API Result<FidelityResult> fidelity(const FidelityOptions& options, const Progress& progress);

}  // namespace gift
