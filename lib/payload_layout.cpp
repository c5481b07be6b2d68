// Layouts: how a shape is read as a matrix, how its rows are cut into shards, and where the parts of each payload lie.
#include <string>

#include "plan_internal.hpp"

namespace gift {
namespace {

constexpr std::int64_t part_alignment_bytes = 16;

Status too_large(const std::string& what) { return Status(Code::invalid_argument, what + " does not fit in 64-bit sizes"); }

/// Places parts one after another, each at a multiple of 16 bytes.
class PartCursor {
 public:
  /// Offset of a part of count * elem_bytes bytes; moves behind it.
  std::int64_t place(std::int64_t count, std::int64_t elem_bytes) {
    const std::int64_t offset = end_;
    std::int64_t bytes = 0, padded = 0;
    ok_ = ok_ && checked_mul(count, elem_bytes, bytes) && checked_add(bytes, part_alignment_bytes - 1, padded) &&
          checked_add(end_, padded / part_alignment_bytes * part_alignment_bytes, end_);
    return offset;
  }
  std::int64_t end() const { return end_; }
  bool ok() const { return ok_; }

 private:
  std::int64_t end_ = 0;
  bool ok_ = true;
};

Result<PayloadLayout> payload_layout(const TensorPlan& t, int leg, int shard) {
  PayloadLayout p;
  p.row_begin = even_cut(t.rows, t.world, shard);
  p.row_end = even_cut(t.rows, t.world, shard + 1);
  const std::int64_t rows = p.row_end - p.row_begin;
  const bool has_s_right = t.deflates() && has_right(t.geometry.side);
  const bool has_s_left = t.deflates() && has_left(t.geometry.side);
  if (has_s_left) {
    p.col_begin = even_cut(t.cols, t.world, shard);
    p.col_end = even_cut(t.cols, t.world, shard + 1);
  }
  p.s_left_elem_bytes = has_s_left && leg == 2 && !t.error_feedback ? 4 : 2;
  PartCursor cursor;
  std::int64_t s_right_count = 0, s_left_count = 0;
  if (has_s_right && !checked_mul(rows, t.rank_right(), s_right_count)) return too_large("S_R");
  if (has_s_left && !checked_mul(p.col_end - p.col_begin, t.rank_left(), s_left_count)) return too_large("S_L");
  p.s_right_offset = cursor.place(s_right_count, 2);
  p.s_left_offset = cursor.place(s_left_count, p.s_left_elem_bytes);
  p.bitmap_bytes = t.mixes_rows() ? rows / 8 + (rows % 8 != 0 ? 1 : 0) : 0;
  p.bitmap_offset = cursor.place(p.bitmap_bytes, 1);
  Result<ElementLayout> elem = element_layout(t.format, rows, t.cols);
  if (!elem.ok()) return elem.status();
  p.elem = *elem;
  p.elem_offset = cursor.place(p.elem.total_bytes, 1);
  if (!cursor.ok()) return too_large("the payload");
  p.total_bytes = cursor.end();
  return p;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::int64_t even_cut(std::int64_t count, int parts, int k) noexcept {
  // floor(k * count / parts) with count = quotient * parts + rest: no product is larger than the result or parts^2.
  const std::int64_t quotient = count / parts, rest = count % parts;
  return quotient * k + rest * k / parts;
}

Result<MatrixView> matrix_view(const std::vector<std::int64_t>& shape, MatrixRule rule) {
  // The product over all dimensions that are not zero has to fit: otherwise a zero extent would hide an overflow.
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      return Status(Code::invalid_argument, "shape " + shape_text(shape) + " has the negative extent " + std::to_string(extent));
    }
    if (extent != 0 && !checked_mul(product, extent, product)) {
      return Status(Code::invalid_argument, "shape " + shape_text(shape) + " has more elements than 64-bit sizes can count");
    }
  }
  const std::size_t dims = shape.size();
  if (dims == 0) return MatrixView{1, 1};
  if (dims == 1) return MatrixView{1, shape[0]};
  if (dims == 2) return MatrixView{shape[0], shape[1]};
  const bool stack = rule == MatrixRule::stack || (rule == MatrixRule::automatic && dims == 3);
  // stack: all dimensions but the last are rows; convolution: all but the first are columns.
  const std::size_t split = stack ? dims - 1 : 1;
  MatrixView view{1, 1};
  for (std::size_t i = 0; i < dims; ++i) (i < split ? view.rows : view.cols) *= shape[i];
  return view;
}

Status lay_out(TensorPlan& tensor) {
  tensor.leg1.clear();
  tensor.leg2.clear();
  std::int64_t all_bytes = 0;
  for (int shard = 0; shard < tensor.world; ++shard) {
    for (int leg = 1; leg <= 2; ++leg) {
      Result<PayloadLayout> layout = payload_layout(tensor, leg, shard);
      if (!layout.ok()) return layout.status();
      if (!checked_add(all_bytes, layout->total_bytes, all_bytes)) return too_large("the sum of the payloads");
      (leg == 1 ? tensor.leg1 : tensor.leg2).push_back(*layout);
    }
  }
  return Status();
}

}  // namespace gift
