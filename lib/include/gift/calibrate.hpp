// Calibration: second moments of gradients or activations in, bases and a recipe out (SPEC section 7).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gift/basis.hpp"
#include "gift/export.hpp"
#include "gift/recipe.hpp"
#include "gift/status.hpp"

namespace gift {

/// What is taken from a dump. `NAME` (a gradient, matrix [m, n]) gives the right factor W^T W and the left factor W W^T;
/// `NAME.input` [tokens, n] gives A, `NAME.output_grad` [tokens, m] gives G, for the layer whose gradient is `NAME.weight`.
enum class FactorSource : std::uint8_t { gradients = 0, activations = 1 };
GIFT_API const char* source_name(FactorSource source) noexcept;

/// The second moment of one side of one layer: sum over samples of x x^T, kept one per file as well for cross-validation.
struct FactorStats {
  std::int64_t dim = 0;
  std::int64_t samples = 0;  ///< rows of X that were added
  std::vector<double> gram;  ///< dim x dim: the sum
  std::vector<std::vector<double>> per_file;
  std::vector<std::string> files;
  std::string skipped;  ///< why this side cannot be used; empty if it can
};

struct LayerStats {
  std::string name;  ///< of the weight: "layers.1.fc1.weight"
  std::vector<std::int64_t> shape;
  std::int64_t rows = 0, cols = 0;
  FactorStats right, left;     ///< dims cols and rows
  std::int64_t gradients = 0;  ///< files that had this layer's gradient
};

/// Reads dumps into second moments, file by file; a file's tensors are dropped before the next is opened.
class GIFT_API Accumulator {
 public:
  /// `exact_limit`: sides with a larger dimension are skipped with a printed reason.
  Accumulator(FactorSource source, const std::string& backend, std::int64_t exact_limit = 2048);
  ~Accumulator();
  Accumulator(Accumulator&&) noexcept;

  /// A tensor with NaN or Inf is skipped and named (file, tensor, index) in `warnings()`; shapes that change from file to file
  /// are an error.
  Status add_file(const std::string& path);
  const std::vector<LayerStats>& layers() const;  ///< by name
  const std::vector<std::string>& warnings() const;
  std::int64_t newest_step() const;  ///< from the files' metadata; -1 if none says

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Basis of a layer from its factors. U is the top `spec.rank` eigenvectors, rounded to FP32 and checked; rank is clipped to what
/// the factor has. Both sides: U_L from the left factor
/// of the whole gradient (measured on fixtures/gradients: E4M3 RelL2 .00662; from what the right side leaves, .00691).
GIFT_API Result<LayerBasisPtr> make_basis(const LayerStats& stats, const GeometrySpec& spec, FactorSource source,
                                          const std::string& backend);

struct CalibrateOptions {
  FactorSource source = FactorSource::gradients;
  std::string backend = "cpu";
  std::vector<GeometrySpec> candidates;  ///< empty: deflate right, left and both over ranks 8, 16, 32, 64
  std::int32_t rank = 0;                 ///< 0: chosen within the budget
  FormatSpec format;                     ///< the format the recipe will use
  double budget = 0.02;                  ///< geometry bytes allowed, as a share of the payload without geometry, over all layers
  std::int64_t exact_limit = 2048;
  bool error_feedback = false;
};

/// One candidate of one layer, priced and predicted.
struct CandidateReport {
  GeometrySpec geometry;
  double energy_kept = 0;       ///< share of |W|^2 in the span, in sample
  double predicted_rel_l2 = 0;  ///< cross-validated: leave one file out; in sample and marked so with a single file
  double geometry_bytes = 0;    ///< a leg, for the layer
};

struct LayerReport {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t samples = 0;
  double condition = 0;                        ///< largest over smallest positive eigenvalue of the right factor
  std::map<std::int32_t, double> energy_kept;  ///< right side, by rank
  std::vector<std::pair<std::string, double>>
      measured_rel_l2;          ///< by format text: one encode and decode of the last file's gradient, chosen geometry
  double euclidean_rel_l2 = 0;  ///< the recipe's format, no geometry
  double upper_clip = 0,
         lower_clip = 0;   ///< the paper's fragility: shares of codes at the ends of E4M3 with a tensor scale, euclidean
  CandidateReport chosen;  ///< euclidean if nothing pays
  double bits_per_element = 0;
  bool optimistic = false;  ///< a single file: the prediction is in sample
  std::string note;         ///< why a layer fell back, what was skipped
};

struct CalibrationResult {
  BasisSet bases;
  Recipe recipe;
  std::vector<LayerReport> layers;
  std::vector<std::string> warnings;
};

/// done, total, what
using Progress = std::function<void(std::int64_t, std::int64_t, const std::string&)>;

GIFT_API Result<CalibrationResult> calibrate(const std::vector<std::string>& files, const CalibrateOptions& options,
                                             const Progress& progress);

}  // namespace gift
