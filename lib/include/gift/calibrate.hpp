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

/// The second moment of one side of one layer: sum over samples of x x^T.
struct FactorStats {
  std::int64_t dim = 0;
  std::int64_t samples = 0;  ///< rows of X that were added
  std::vector<double> gram;  ///< dim x dim, row-major: the sum
  std::string skipped;       ///< why this side cannot be used; empty if it can
};

struct LayerStats {
  std::string name;  ///< of the weight: "layers.1.fc1.weight"
  std::vector<std::int64_t> shape;
  std::int64_t rows = 0, cols = 0;  ///< of the weight; 0 where activation dumps hold only one of input and output_grad
  FactorStats right, left;          ///< dims cols and rows
  std::int64_t gradients = 0;       ///< files that had this layer
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

/// Basis of a layer from its factors. U is the top `spec.rank` eigenvectors, rounded to FP32 and checked; rank is clipped to
/// min(m, n) and to the rank that the factor has. Both sides: U_L from the left factor of the whole gradient (measured on
/// fixtures/gradients: E4M3 RelL2 .00662; from what the right side leaves, .00691). A zero factor is Code::numeric.
GIFT_API Result<LayerBasisPtr> make_basis(const LayerStats& stats, const GeometrySpec& spec, FactorSource source,
                                          const std::string& backend);

struct CalibrateOptions {
  FactorSource source = FactorSource::gradients;
  std::string backend = "cpu";
  /// Coordinates to try. Empty: deflate right, left and both. A candidate of rank 0 stands for ranks 8, 16, 32 and 64.
  std::vector<GeometrySpec> candidates;
  /// 0: chosen within the budget. Else this rank for all candidates, no budget: each layer takes the candidate that predicts
  /// least.
  std::int32_t rank = 0;
  std::string layers = "*";  ///< name_matches() pattern over weight names
  std::string command;       ///< recorded in the basis file
  FormatSpec format;         ///< the format the recipe will use
  double budget = 0.02;      ///< geometry bytes allowed, as a share of the payload without geometry, over all layers
  std::int64_t exact_limit = 2048;
  bool error_feedback = false;
};

/// One candidate of one layer, priced and predicted.
struct CandidateReport {
  GeometrySpec geometry;
  double energy_kept = 0;       ///< share of |W|^2 in the span of U, cross-validated like the prediction
  double predicted_rel_l2 = 0;  ///< cross-validated: leave one file out; in sample and marked so with a single file
  double geometry_bytes = 0;    ///< for the layer, mean of both legs
};

struct LayerReport {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t samples = 0;                    ///< rows of the right factor (of the left one without it)
  double condition = 0;                        ///< largest over smallest eigenvalue of the right factor within its rank
  std::int64_t factor_rank = 0;                ///< of the right factor: eigenvalues above dim * epsilon * largest
  std::map<std::int32_t, double> energy_kept;  ///< right factor, in sample, by rank 8, 16, 32, 64
  /// By format text: one encode and decode of the last file's gradient in the chosen geometry, with a basis from the other files.
  std::vector<std::pair<std::string, double>> measured_rel_l2;
  double measured = 0;          ///< the same for the recipe's format; NaN without a gradient
  double euclidean_rel_l2 = 0;  ///< the recipe's format, no geometry, measured
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
