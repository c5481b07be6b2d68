// Plan: everything that is decided before any gradient is seen. Layers -> matrices -> shards -> bytes. Immutable; equal inputs
// give equal plans on every rank, and the fingerprint proves it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gift/basis.hpp"
#include "gift/export.hpp"
#include "gift/format.hpp"
#include "gift/geometry.hpp"
#include "gift/recipe.hpp"
#include "gift/status.hpp"

namespace gift {

/// A parameter as the framework knows it. `shape` is row-major, every extent >= 0.
struct TensorDesc {
  std::string name;
  std::vector<std::int64_t> shape;
  Dtype dtype = Dtype::f32;  ///< of the caller's gradient buffer
};

/// How a tensor is read as a matrix: 0-D and 1-D: one row; 2-D: as it is; 3-D `stack` (the automatic rule: experts):
/// (d0*d1) x d2; `convolution` (automatic for 4-D and more): d0 x (product of the rest). Refuses negative extents and overflow.
struct MatrixView {
  std::int64_t rows = 0, cols = 0;
};
GIFT_API Result<MatrixView> matrix_view(const std::vector<std::int64_t>& shape, MatrixRule rule);

/// Where the parts of one packet's payload lie. Parts start at multiples of 16 bytes; gaps are zero bytes.
/// Order: S_R, S_L, zero-row bitmap, elements.
struct PayloadLayout {
  std::int64_t row_begin = 0, row_end = 0;  ///< rows of W in this shard
  std::int64_t col_begin = 0, col_end = 0;  ///< columns of S_L in this shard (left and both deflation)
  std::int64_t s_right_offset = 0;          ///< BF16 [row_end - row_begin, rank_right], row-major
  std::int64_t s_left_offset = 0;           ///< [rank_left, col_end - col_begin], row-major, BF16 or FP32
  std::int32_t s_left_elem_bytes = 2;       ///< 4 on leg 2 when there is no error feedback (SPEC section 4)
  std::int64_t bitmap_offset = 0;           ///< bit i % 8 of byte i / 8 set: row row_begin + i is zero (left and both, any kind)
  std::int64_t bitmap_bytes = 0;
  std::int64_t elem_offset = 0;
  ElementLayout elem;            ///< offsets relative to elem_offset
  std::int64_t total_bytes = 0;  ///< multiple of 16
};

/// One tensor's share of a plan.
struct TensorPlan {
  std::string name;
  std::uint32_t id = 0;  ///< XXH3-64 of the name, low 32 bits, made unique within the plan
  std::vector<std::int64_t> shape;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0, cols = 0;
  FormatSpec format;
  GeometrySpec geometry;  ///< resolved: rank clipped, block chosen, side set
  bool error_feedback = false;
  bool exempt = false;
  ReduceOp op = ReduceOp::mean;
  int world = 1;
  LayerBasisPtr basis;                    ///< null for euclidean and hadamard
  std::vector<PayloadLayout> leg1, leg2;  ///< one a destination / owner; leg1[k] and leg2[k] cover the same rows

  std::int64_t elements() const noexcept { return rows * cols; }
  std::int32_t rank_right() const noexcept { return basis ? basis->right.rank : 0; }
  std::int32_t rank_left() const noexcept { return basis ? basis->left.rank : 0; }
  bool deflates() const noexcept { return geometry.kind == GeometryKind::deflate; }
  /// Left side involved: rows are mixed, so zero rows travel as a bitmap.
  bool mixes_rows() const noexcept { return has_left(geometry.side); }
};

/// The 64 bytes by which ranks find out whether they hold the same plan; little-endian on the wire.
struct Fingerprint {
  std::uint32_t protocol = 0;  ///< version of packets and fingerprints
  std::uint32_t code = 0;      ///< version of libgift: major*10^6 + minor*10^3 + patch
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t shapes = 0;   ///< XXH3-64 of names, shapes, dtypes
  std::uint64_t formats = 0;  ///< XXH3-64 of formats, geometries and flags, tensor by tensor
  std::uint64_t recipe = 0;   ///< XXH3-64 of the canonical TOML
  std::uint64_t basis = 0;    ///< low 64 bits of the set's hash
  std::uint64_t step = 0;
};
static_assert(sizeof(Fingerprint) == 64);

class GIFT_API Plan {
 public:
  /// Plans `tensors` for `world` ranks. A tensor whose geometry needs a basis and has none in `bases`, or has one of another
  /// shape, is an error that names it; bases nobody asks for are ignored. Names must be unique.
  static Result<Plan> make(const Recipe& recipe, const std::vector<TensorDesc>& tensors, int world, const BasisSet& bases);

  const Recipe& recipe() const noexcept;
  int world() const noexcept;
  const std::vector<TensorPlan>& tensors() const noexcept;
  /// Index of a tensor by name, or -1.
  std::int64_t find(const std::string& name) const noexcept;
  Fingerprint fingerprint(std::uint64_t step) const noexcept;

  /// Bytes a rank sends to other ranks in one reduce of all tensors, headers included (mean over ranks), and what an FP32
  /// two-shot of the same tensors would send.
  double wire_bytes_per_rank() const noexcept;
  double fp32_bytes_per_rank() const noexcept;
  /// Bits per element and leg: the payload over the elements, everything included, mean of both legs.
  double bits_per_element() const noexcept;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

/// A plan for one tensor with everything said outright, for encoding it alone (fidelity, verify, frameworks that carry the
/// bytes themselves). No exemptions apply.
GIFT_API Result<TensorPlan> plan_tensor(const TensorDesc& tensor, const FormatSpec& format, const GeometrySpec& geometry,
                                        LayerBasisPtr basis, bool error_feedback, ReduceOp op, int world,
                                        MatrixRule rule = MatrixRule::automatic);

/// Row cuts of an even split: cut k of `parts` is floor(k * count / parts), without overflow.
GIFT_API std::int64_t even_cut(std::int64_t count, int parts, int k) noexcept;

}  // namespace gift
