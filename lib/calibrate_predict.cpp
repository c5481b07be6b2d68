// Predictions of calibration: energies of held-out gradients, and what formats do to Gaussian numbers.
#include "calibrate_predict.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "gift/fidelity.hpp"

namespace gift {
namespace {

void grow(std::vector<double>& sums, std::size_t count) {
  if (sums.size() < count) sums.resize(count, 0.0);
}

/// W U: rows x kept.
std::vector<double> times_right(const std::vector<float>& w, std::int64_t rows, std::int64_t cols, const FactorParts& parts) {
  const std::int64_t r = parts.kept;
  std::vector<double> p(static_cast<std::size_t>(rows * r), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* out = p.data() + i * r;
    for (std::int64_t k = 0; k < cols; ++k) {
      const double value = w[static_cast<std::size_t>(i * cols + k)];
      const double* u = parts.vectors.data() + k * r;
      for (std::int64_t j = 0; j < r; ++j) out[j] += value * u[j];
    }
  }
  return p;
}

/// U^T M: kept x width, for M rows x width.
template <class T>
std::vector<double> left_times(const FactorParts& parts, const std::vector<T>& m, std::int64_t rows, std::int64_t width) {
  const std::int64_t r = parts.kept;
  std::vector<double> q(static_cast<std::size_t>(r * width), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = m.data() + i * width;
    for (std::int64_t j = 0; j < r; ++j) {
      const double u = parts.vectors[static_cast<std::size_t>(i * r + j)];
      double* out = q.data() + j * width;
      for (std::int64_t c = 0; c < width; ++c) out[c] += u * static_cast<double>(row[c]);
    }
  }
  return q;
}

/// a of the header's formula and |T^-1|_F^2 / n for one side.
std::vector<double> change_of(const SideBasis& b, GeometryKind kind, double& gain) {
  std::vector<double> a(static_cast<std::size_t>(b.rank), -1.0);
  if (kind != GeometryKind::whiten) return a;
  double inverse = static_cast<double>(b.dim - b.rank);
  for (std::size_t j = 0; j < a.size(); ++j) {
    const double forward = 1.0 - static_cast<double>(b.d[j]), back = 1.0 + static_cast<double>(b.d_inv[j]);
    a[j] = forward * forward - 1.0;
    inverse += back * back;
  }
  gain *= inverse / static_cast<double>(b.dim);
  return a;
}

/// Sums over the directions that the held-out folds had.
double weighted(const std::vector<double>& a, const std::vector<double>& energy) {
  double sum = 0;
  for (std::size_t j = 0; j < std::min(a.size(), energy.size()); ++j) sum += a[j] * energy[j];
  return sum;
}

}  // namespace

void HeldOut::add(const std::vector<float>& w, std::int64_t rows, std::int64_t cols, const FactorParts* right_parts,
                  const FactorParts* left_parts) {
  for (const float v : w) total += static_cast<double>(v) * static_cast<double>(v);
  std::vector<double> p;
  if (right_parts != nullptr) {
    const auto r = static_cast<std::size_t>(right_parts->kept);
    p = times_right(w, rows, cols, *right_parts);
    grow(right, r);
    for (std::size_t i = 0; i < p.size(); ++i) right[i % r] += p[i] * p[i];
  }
  if (left_parts == nullptr) return;
  const std::vector<double> q = left_times(*left_parts, w, rows, cols);
  grow(left, static_cast<std::size_t>(left_parts->kept));
  for (std::size_t i = 0; i < q.size(); ++i) left[i / static_cast<std::size_t>(cols)] += q[i] * q[i];
  if (right_parts == nullptr || right_parts->kept == 0) return;
  const auto width = static_cast<std::size_t>(right_parts->kept);
  const std::vector<double> t = left_times(*left_parts, p, rows, right_parts->kept);
  // All folds take the same most directions; a fold with fewer leaves the rest without energy.
  if (cross_width < width) {
    std::vector<double> wider(left.size() * width, 0.0);
    for (std::size_t i = 0; i * cross_width < cross.size() && cross_width > 0; ++i) {
      std::copy_n(cross.begin() + static_cast<std::ptrdiff_t>(i * cross_width), cross_width,
                  wider.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    cross = std::move(wider);
    cross_width = width;
  }
  grow(cross, left.size() * cross_width);
  for (std::size_t i = 0; i < t.size(); ++i) cross[i / width * cross_width + i % width] += t[i] * t[i];
}

SharePrediction predict(const HeldOut& held, const LayerBasis* basis) {
  SharePrediction out;
  if (basis == nullptr || !(held.total > 0)) return out;
  std::vector<double> a, b;
  if (has_right(basis->side)) a = change_of(basis->right, basis->kind, out.gain);
  if (has_left(basis->side)) b = change_of(basis->left, basis->kind, out.gain);
  const std::vector<double> ones_a(a.size(), 1.0), ones_b(b.size(), 1.0);
  double quantised = held.total + weighted(a, held.right) + weighted(b, held.left);
  double kept = weighted(ones_a, held.right) + weighted(ones_b, held.left);
  for (std::size_t i = 0; i < std::min(b.size(), held.left.size()); ++i) {
    for (std::size_t j = 0; j < std::min(a.size(), held.cross_width); ++j) {
      const double energy = held.cross[i * held.cross_width + j];
      quantised += a[j] * b[i] * energy;
      kept -= energy;  // it was counted on both sides
    }
  }
  out.quantised = std::max(0.0, quantised / held.total);
  out.kept = std::clamp(kept / held.total, 0.0, 1.0);
  return out;
}

double geometry_bytes(const LayerBasis* basis, std::int64_t rows, std::int64_t cols, bool error_feedback) {
  if (basis == nullptr) return 0;
  double bytes = 0;
  if (basis->kind == GeometryKind::deflate) {
    const double left_elem_bytes = error_feedback ? 2.0 : 3.0;  // mean of 2 and 4
    bytes += 2.0 * static_cast<double>(rows) * static_cast<double>(basis->right.rank);
    bytes += left_elem_bytes * static_cast<double>(cols) * static_cast<double>(basis->left.rank);
  }
  if (has_left(basis->side)) bytes += static_cast<double>((rows + 7) / 8);
  return bytes;
}

Result<double> encode_error(const Codec& codec, const TensorDesc& tensor, const std::vector<float>& values,
                            const FormatSpec& format, const GeometrySpec& geometry, LayerBasisPtr basis, EncodeStats* stats) {
  const Result<TensorPlan> plan = plan_tensor(tensor, format, geometry, std::move(basis), false, ReduceOp::mean, 1);
  if (!plan.ok()) return plan.status();
  std::vector<float> decoded(values.size());
  EncodeStats ignored;
  const Status s =
      codec.round_trip(*plan, values.data(), nullptr, decoded.data(), RoundingKey{}, stats ? stats : &ignored, nullptr);
  if (!s.ok()) return s;
  return compare(values.data(), decoded.data(), static_cast<std::int64_t>(values.size())).rel_l2;
}

Result<double> FormatError::at(std::int64_t cols) {
  if (const auto it = known_.find(cols); it != known_.end()) return it->second;
  const std::int64_t rows = std::max<std::int64_t>(1, 65536 / cols);
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  std::mt19937_64 engine(1);  // Box and Muller's method, because std::normal_distribution differs from library to library
  for (float& value : x) {
    const double u = (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53, v = static_cast<double>(engine() >> 11) * 0x1p-53;
    value = static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
  }
  const Result<double> c =
      encode_error(codec_, {"gaussian", {rows, cols}, Dtype::f32}, x, format_, GeometrySpec{}, nullptr, nullptr);
  if (c.ok()) known_[cols] = *c;
  return c;
}

}  // namespace gift
