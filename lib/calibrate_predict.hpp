// What a geometry would do to gradients it was not made from. Private to calibration.
//
// With U from the other files, a held-out W has energy |W u_j|^2 in each right direction, |u_i^T W|^2 in each left one and
// (u_i^T W u_j)^2 in both. A map that multiplies direction j by 1 - D_j therefore leaves
//   |W~|^2 = |W|^2 + sum_j a_j |W u_j|^2 + sum_i b_i |u_i^T W|^2 + sum_ij a_j b_i (u_i^T W u_j)^2,   a = (1 - D)^2 - 1,
// to be quantised; deflation is D = 1, so a = -1. A format's error is c |W~|, with c measured on Gaussian data, spread evenly;
// the way back multiplies its energy by |T^-1|_F^2 / n a side (1 for deflation, where the error is not mapped).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gift/codec.hpp"
#include "gift/plan.hpp"
#include "make_basis.hpp"

namespace gift {

/// Energies of held-out gradients, summed over folds.
struct HeldOut {
  double total = 0;
  std::vector<double> right, left;  ///< by direction
  std::vector<double> cross;        ///< left x cross_width
  std::size_t cross_width = 0;

  /// A gradient (rows x cols) against parts made from other files; a null side has no directions.
  void add(const std::vector<float>& gradient, std::int64_t rows, std::int64_t cols, const FactorParts* right_parts,
           const FactorParts* left_parts);
};

/// Energy to be quantised and energy inside the span of U, as shares of |W|^2, and what the way back does to the error's energy.
struct SharePrediction {
  double quantised = 1, kept = 0, gain = 1;
};
/// `basis` is the layer's basis from all files (its rank, and D for whitening); null for euclidean and hadamard.
SharePrediction predict(const HeldOut& held, const LayerBasis* basis);

/// Bytes that a geometry adds to a payload of one rank, mean of both legs: S in BF16 (S_L in FP32 on leg 2 without error
/// feedback), and the bitmap of zero rows.
double geometry_bytes(const LayerBasis* basis, std::int64_t rows, std::int64_t cols, bool error_feedback);

/// c of a format at a row length: RelL2 of one encode and decode of Gaussian numbers.
class FormatError {
 public:
  FormatError(const Codec& codec, FormatSpec format) : codec_(codec), format_(format) {}
  Result<double> at(std::int64_t cols);

 private:
  const Codec& codec_;
  FormatSpec format_;
  std::map<std::int64_t, double> known_;
};

/// RelL2 of one encode and decode.
Result<double> encode_error(const Codec& codec, const TensorDesc& tensor, const std::vector<float>& values,
                            const FormatSpec& format, const GeometrySpec& geometry, LayerBasisPtr basis, EncodeStats* stats);

}  // namespace gift
