// Which layer gets which geometry: the error that most bytes buy. Private to calibration.
#pragma once

#include <vector>

#include "gift/calibrate.hpp"

namespace gift {

/// A layer with its candidates; `chosen` is an index into them, -1 for euclidean.
struct PricedLayer {
  double elements = 0;
  double payload_bytes = 0;     ///< without geometry
  double euclidean_rel_l2 = 0;  ///< predicted
  std::vector<CandidateReport> candidates;
  int chosen = -1;
};

/// Greedy: again and again the step, in any layer, that takes off most predicted squared error (RelL2^2 x elements, so that a
/// layer counts by its size and not by the scale of its gradient) per byte, as long as it fits. Steps that cost nothing come
/// first. Ties go to the earlier layer and candidate, so equal inputs give equal choices.
void choose_within(std::vector<PricedLayer>& layers, double budget_bytes);

/// Each layer takes the candidate of the smallest predicted error, if that is smaller than without geometry.
void choose_least_error(std::vector<PricedLayer>& layers);

}  // namespace gift
