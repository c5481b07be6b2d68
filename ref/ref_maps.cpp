// The coordinate maps of a whole tensor: there (right, then left) and back (left, then right), in the order of SPEC section 5.
#include <cmath>

#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

void round_to_bf16(Floats& s) {
  for (float& value : s) value = from_bf16(to_bf16(value));
}

std::size_t count(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

/// x <- x (I + sign * U D U^T)
void whiten_right(const Kernels& k, const TensorPlan& t, const Floats& d, float sign, Floats& x) {
  const SideBasis& b = t.basis->right;
  Floats s(count(t.rows, b.rank));
  k.project_right(x.data(), t.rows, t.cols, b.u.data(), b.rank, s.data());
  k.scale_columns(s.data(), t.rows, b.rank, d.data());
  k.add_outer_right(x.data(), t.rows, t.cols, s.data(), b.u.data(), b.rank, sign);
}

/// x <- (I + sign * U D U^T) x
void whiten_left(const Kernels& k, const TensorPlan& t, const Floats& d, float sign, Floats& x) {
  const SideBasis& b = t.basis->left;
  Floats s(count(b.rank, t.cols));
  k.project_left(x.data(), t.rows, t.cols, b.u.data(), b.rank, s.data());
  k.scale_rows(s.data(), b.rank, t.cols, d.data());
  k.add_outer_left(x.data(), t.rows, t.cols, s.data(), b.u.data(), 0, b.rank, sign);
}

Projections deflate(const Kernels& k, const TensorPlan& t, Floats& x) {
  Projections s;
  if (has_right(t.geometry.side)) {  // S_R = bf16(X U_R), E = X - S_R U_R^T
    const SideBasis& b = t.basis->right;
    s.s_right.resize(count(t.rows, b.rank));
    k.project_right(x.data(), t.rows, t.cols, b.u.data(), b.rank, s.s_right.data());
    round_to_bf16(s.s_right);
    k.add_outer_right(x.data(), t.rows, t.cols, s.s_right.data(), b.u.data(), b.rank, -1.0f);
  }
  if (has_left(t.geometry.side)) {  // S_L = bf16(U_L^T E), E = E - U_L S_L
    const SideBasis& b = t.basis->left;
    s.s_left.resize(count(b.rank, t.cols));
    k.project_left(x.data(), t.rows, t.cols, b.u.data(), b.rank, s.s_left.data());
    round_to_bf16(s.s_left);
    k.add_outer_left(x.data(), t.rows, t.cols, s.s_left.data(), b.u.data(), 0, b.rank, -1.0f);
  }
  return s;
}

}  // namespace

const Kernels& scalar_kernels() noexcept {
  static const Kernels kernels = {finite_amax,   encode_elements,  decode_elements, convert_values, expand_codes,
                                  project_right, project_left,     add_outer_right, add_outer_left, scale_columns,
                                  scale_rows,    hadamard_forward, hadamard_inverse};
  return kernels;
}

bool residual_is_whitened(const TensorPlan& t) noexcept {
  return t.geometry.kind == GeometryKind::whiten && t.geometry.side == Side::right;
}

bool quantises_mapped(const TensorPlan& t) noexcept {
  return t.geometry.kind == GeometryKind::whiten || t.geometry.kind == GeometryKind::hadamard;
}

Projections map_forward(const Kernels& k, const TensorPlan& t, Floats& x) {
  switch (t.geometry.kind) {
    case GeometryKind::euclidean:
      break;
    case GeometryKind::hadamard:
      k.hadamard_forward(x.data(), t.rows, t.cols, t.geometry.hadamard_block);
      break;
    case GeometryKind::whiten:
      if (has_right(t.geometry.side)) whiten_right(k, t, t.basis->right.d, -1.0f, x);
      if (has_left(t.geometry.side)) whiten_left(k, t, t.basis->left.d, -1.0f, x);
      break;
    case GeometryKind::deflate:
      return deflate(k, t, x);
  }
  return Projections();
}

void map_back(const Kernels& k, const TensorPlan& t, const Projections& s, Floats& x) {
  switch (t.geometry.kind) {
    case GeometryKind::euclidean:
      break;
    case GeometryKind::hadamard:
      k.hadamard_inverse(x.data(), t.rows, t.cols, t.geometry.hadamard_block);
      break;
    case GeometryKind::whiten:
      if (has_left(t.geometry.side)) whiten_left(k, t, t.basis->left.d_inv, 1.0f, x);
      if (has_right(t.geometry.side)) whiten_right(k, t, t.basis->right.d_inv, 1.0f, x);
      break;
    case GeometryKind::deflate:
      if (has_left(t.geometry.side)) {
        const SideBasis& b = t.basis->left;
        k.add_outer_left(x.data(), t.rows, t.cols, s.s_left.data(), b.u.data(), 0, b.rank, 1.0f);
      }
      if (has_right(t.geometry.side)) {
        const SideBasis& b = t.basis->right;
        k.add_outer_right(x.data(), t.rows, t.cols, s.s_right.data(), b.u.data(), b.rank, 1.0f);
      }
      break;
  }
}

bool all_finite(const float* x, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

bool all_zero(const float* x, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] != 0.0f) return false;  // NaN is not zero
  }
  return true;
}

double finite_energy(const float* x, std::int64_t n) noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i])) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum;
}

}  // namespace gift::ref
