// From factors to bases, in the steps that calibration takes one by one. Private.
#pragma once

#include <cstdint>
#include <vector>

#include "backend.hpp"
#include "gift/calibrate.hpp"

namespace gift {

/// A factor taken apart.
struct FactorParts {
  std::int64_t dim = 0, samples = 0;
  std::vector<double> values;    ///< all eigenvalues, descending, none below 0
  std::vector<double> vectors;   ///< dim x kept, row-major
  std::int32_t kept = 0;         ///< eigenvectors, no more than factor_rank
  std::int64_t factor_rank = 0;  ///< eigenvalues above dim * epsilon * largest
  double trace = 0;
};

/// The eigenvectors of the `most` largest eigenvalues, as far as the factor has so many. A zero factor keeps none.
Result<FactorParts> take_apart(const LinAlg& linalg, const std::vector<double>& gram, std::int64_t dim, std::int64_t samples,
                               std::int64_t most);

/// One side's basis of rank min(spec.rank, kept), with the scales of whitening where that is the kind.
Result<SideBasis> side_basis(const FactorParts& parts, const GeometrySpec& spec);

/// A sealed basis; a part that the side does not use may be null.
Result<LayerBasisPtr> layer_basis(const FactorParts* right, const FactorParts* left, const GeometrySpec& spec,
                                  FactorSource source, std::int64_t step);

}  // namespace gift
