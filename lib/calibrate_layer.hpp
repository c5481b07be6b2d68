// Calibration of one layer: factors, folds, candidates, and afterwards the measured figures. Private to calibration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate_predict.hpp"
#include "calibrate_sample.hpp"
#include "gift/calibrate.hpp"

namespace gift {

/// What all layers share.
struct CalibrationContext {
  const CalibrateOptions& options;
  const Codec& codec;
  const LinAlg& linalg;
  const std::vector<SafetensorsFile>& files;
  FormatError& format_error;
  std::vector<std::string>& warnings;
};

/// One layer on its way. Gram matrices are dropped at the end of `study`.
struct LayerStudy {
  LayerReport report;
  std::int64_t rows = 0, cols = 0, step = -1;
  std::optional<FactorParts> right, left;            ///< of all files
  std::optional<FactorParts> fold_right, fold_left;  ///< of the files but the last one's fold
  std::int64_t last_file = -1;                       ///< index of the last file with a usable gradient
  double euclidean_predicted = 0;
  std::vector<CandidateReport> candidates;
  std::vector<LayerBasisPtr> bases;  ///< one a candidate, from all files; null where none is needed
};

/// Ranks that a candidate of rank 0 stands for.
inline constexpr std::int32_t automatic_ranks[] = {8, 16, 32, 64};

/// Reads a layer's samples and predicts every candidate. A layer that cannot be used has no candidates and a note that says why.
Result<LayerStudy> study(const CalibrationContext& context, const std::string& name);

/// Encodes the last file's gradient with the chosen candidate (-1: euclidean), its basis made from the other files.
Status measure(const CalibrationContext& context, int chosen, LayerStudy& layer);

/// Adds a sentence to a layer's note.
void add_note(LayerReport& report, const std::string& sentence);

}  // namespace gift
