// What becomes of the residuals: kept (commit), put back (rollback), or moved to other coordinates (re_express).
#include <algorithm>
#include <cstring>

#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

std::size_t cell(std::int64_t row, std::int64_t cols) { return static_cast<std::size_t>(row * cols); }

/// The owner's residual: what quantising the sum lost. Rows that decode to zero everywhere owe nothing, except under left whiten,
/// where they are not zero in the coordinates that are quantised.
void commit_owner(const Kernels& k, const CommitArgs& args) {
  const TensorPlan& t = *args.tensor;
  const auto shard = static_cast<std::size_t>(args.shard);
  const PayloadLayout& p = t.leg2[shard];
  const std::int64_t rows = p.row_end - p.row_begin;
  if (args.owner_residual == nullptr || rows * t.cols == 0) return;
  Floats decoded(cell(rows, t.cols));
  k.decode_elements(t.format, p.elem, args.leg2[shard] + p.elem_offset, 0, rows, decoded.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    const bool clear = t.deflates() && t.mixes_rows() && row_bit(p, args.leg2[shard], row);
    for (std::size_t i = cell(row, t.cols); i < cell(row + 1, t.cols); ++i) {
      args.owner_residual[i] = clear ? 0.0f : args.quantised[i] - decoded[i];
    }
  }
}

/// R += U_L * loss on the columns of S_L that this rank owns.
void add_left_loss(const Kernels& k, const CommitArgs& args) {
  const TensorPlan& t = *args.tensor;
  const PayloadLayout& p = t.leg2[static_cast<std::size_t>(args.shard)];
  const std::int64_t width = p.col_end - p.col_begin;
  if (args.left_loss == nullptr || args.residual == nullptr || width == 0) return;
  const SideBasis& basis = t.basis->left;
  Floats slice(cell(t.rows, width));
  const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(float);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    std::memcpy(slice.data() + row * width, args.residual + row * t.cols + p.col_begin, bytes);
  }
  k.add_outer_left(slice.data(), t.rows, width, args.left_loss, basis.u.data(), 0, basis.rank, 1.0f);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    std::memcpy(args.residual + row * t.cols + p.col_begin, slice.data() + row * width, bytes);
  }
}

void clear_zero_rows(const CommitArgs& args) {
  const TensorPlan& t = *args.tensor;
  if (args.residual == nullptr || !t.mixes_rows()) return;
  for (std::size_t shard = 0; shard < t.leg2.size(); ++shard) {
    const PayloadLayout& p = t.leg2[shard];
    for (std::int64_t row = p.row_begin; row < p.row_end; ++row) {
      if (row_bit(p, args.leg2[shard], row - p.row_begin)) std::fill_n(args.residual + row * t.cols, t.cols, 0.0f);
    }
  }
}

/// Whether the numbers that are quantised mean the same under both plans, so that an owner's residual can stay as it is.
bool same_quantised_coordinates(const TensorPlan& a, const TensorPlan& b) {
  if (!quantises_mapped(a) && !quantises_mapped(b)) return true;
  if (a.geometry.kind != b.geometry.kind) return false;
  if (a.geometry.kind == GeometryKind::hadamard) return a.geometry.hadamard_block == b.geometry.hadamard_block;
  return a.basis->hash == b.basis->hash;
}

/// R += what this rank owes as an owner, in the coordinates of R.
void fold_owner(const Kernels& k, const TensorPlan& t, int shard, float* owner_residual, float* residual) {
  const PayloadLayout& p = t.leg2[static_cast<std::size_t>(shard)];
  const float factor = t.op == ReduceOp::mean ? static_cast<float>(t.world) : 1.0f;
  Floats owed(cell(t.rows, t.cols), 0.0f);
  for (std::int64_t i = 0; i < (p.row_end - p.row_begin) * t.cols; ++i) {
    owed[cell(p.row_begin, t.cols) + static_cast<std::size_t>(i)] = owner_residual[i] * factor;
    owner_residual[i] = 0.0f;
  }
  if (quantises_mapped(t) && !residual_is_whitened(t)) map_back(k, t, Projections(), owed);
  for (std::size_t i = 0; i < owed.size(); ++i) residual[i] += owed[i];
}

}  // namespace

Status commit(const Kernels& kernels, const CommitArgs& args) {
  const FpEnvironment environment;
  commit_owner(kernels, args);
  add_left_loss(kernels, args);
  clear_zero_rows(args);
  return Status();
}

Status rollback(const Kernels& kernels, const RollbackArgs& args) {
  const FpEnvironment environment;
  const TensorPlan& t = *args.tensor;
  if (args.residual == nullptr) return Status();
  Floats w = load_matrix(t, args.input);
  Gathered sent = gather(kernels, t, 1, args.leg1);
  if (residual_is_whitened(t)) {
    map_forward(kernels, t, w);
  } else {
    map_back(kernels, t, sent.s, sent.elements);
  }
  for (std::int64_t row = 0; row < t.rows; ++row) {
    if (args.row_written[row] == 0) continue;
    const bool zero = sent.zero_rows[static_cast<std::size_t>(row)] != 0;  // then X was exactly 0
    for (std::size_t i = cell(row, t.cols); i < cell(row + 1, t.cols); ++i) {
      const float x = zero ? 0.0f : args.residual[i] + sent.elements[i];
      args.residual[i] = x - w[i];
    }
  }
  return Status();
}

Status re_express(const Kernels& kernels, const TensorPlan& old_plan, const TensorPlan& new_plan, int shard,
                  float* owner_residual, float* residual) {
  const FpEnvironment environment;
  if (residual == nullptr || same_quantised_coordinates(old_plan, new_plan)) return Status();
  if (owner_residual != nullptr) fold_owner(kernels, old_plan, shard, owner_residual, residual);
  Floats r(residual, residual + old_plan.elements());
  if (residual_is_whitened(old_plan)) map_back(kernels, old_plan, Projections(), r);
  if (residual_is_whitened(new_plan)) map_forward(kernels, new_plan, r);
  std::copy(r.begin(), r.end(), residual);
  return Status();
}

}  // namespace gift::ref
