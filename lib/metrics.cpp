// The four metrics of a decoded gradient against its original, summed in FP64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gift/fidelity.hpp"

namespace gift {

Metrics compare(const float* original, const float* decoded, std::int64_t count) {
  double energy = 0, decoded_energy = 0, product = 0, error_energy = 0, max_err = 0;
  bool finite = true;
  for (std::int64_t k = 0; k < count; ++k) {
    const double w = original[k], v = decoded[k], error = v - w;
    finite = finite && std::isfinite(error);
    energy += w * w;
    decoded_energy += v * v;
    product += w * v;
    error_energy += error * error;
    max_err = std::max(max_err, std::fabs(error));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (!finite) return {nan, nan, nan, nan};
  Metrics metrics;
  metrics.max_err = max_err;
  metrics.mse = count > 0 ? error_energy / static_cast<double>(count) : 0;
  if (energy > 0) {
    metrics.rel_l2 = std::sqrt(error_energy / energy);
  } else {
    metrics.rel_l2 = error_energy > 0 ? nan : 0;
  }
  if (energy > 0 && decoded_energy > 0) {
    metrics.cosine = product / (std::sqrt(energy) * std::sqrt(decoded_energy));
  } else {
    metrics.cosine = energy == decoded_energy ? 1 : nan;  // two zero gradients point the same way; one of two has no direction
  }
  return metrics;
}

}  // namespace gift
