// Leg 1, the sender: one gradient from the caller's buffer to one payload a destination, and what was lost to the residual.
//
//   X = W + R              the residual of the step before
//   E, S = map(X)          euclidean: E = X; deflate: S = bf16(X U), E = X - S U^T; hadamard and whiten: E = X T
//   payload = S, zero rows, quantise(E)
//   R = X - what a receiver will read out of the payload
#include <cmath>
#include <cstring>

#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

/// The state of one encode between its steps.
struct Encoding {
  const Kernels& k;
  const EncodeArgs& args;
  const TensorPlan& t;
  Floats e;         ///< X, then what is quantised
  Floats original;  ///< X, kept where the residual cannot be told from E alone
  Projections s;
  std::vector<std::uint8_t> row_finite, row_zero;
  EncodeStats stats;
};

std::int64_t cell(const Encoding& c, std::int64_t row) { return row * c.t.cols; }

/// A residual in the original coordinates of a mapped tensor: R = X - T^-1(E^).
bool residual_needs_way_back(const TensorPlan& t) { return quantises_mapped(t) && !residual_is_whitened(t); }

void add_residual(Encoding& c) {
  for (std::size_t i = 0; i < c.e.size(); ++i) c.e[i] += c.args.residual[i];
}

void note_finite_rows(Encoding& c) {
  for (std::int64_t row = 0; row < c.t.rows; ++row) {
    std::uint8_t& finite = c.row_finite[static_cast<std::size_t>(row)];
    if (!all_finite(c.e.data() + cell(c, row), c.t.cols)) finite = 0;
    if (!c.s.s_right.empty() && !all_finite(c.s.s_right.data() + row * c.t.rank_right(), c.t.rank_right())) finite = 0;
  }
}

void load_and_map(Encoding& c) {
  const bool feedback = c.args.residual != nullptr, whitened = residual_is_whitened(c.t);
  c.e = load_matrix(c.t, c.args.input);
  if (feedback && !whitened) add_residual(c);
  note_finite_rows(c);
  for (std::int64_t row = 0; c.t.mixes_rows() && row < c.t.rows; ++row) {
    c.row_zero[static_cast<std::size_t>(row)] = all_zero(c.e.data() + cell(c, row), c.t.cols) ? 1 : 0;
  }
  if (!quantises_mapped(c.t)) c.stats.energy = finite_energy(c.e.data(), c.t.elements());
  if (feedback && residual_needs_way_back(c.t)) c.original = c.e;
  c.s = map_forward(c.k, c.t, c.e);
  if (feedback && whitened) add_residual(c);
  note_finite_rows(c);
  if (quantises_mapped(c.t)) c.stats.energy = finite_energy(c.e.data(), c.t.elements());
  for (const std::uint8_t finite : c.row_finite) c.stats.non_finite = c.stats.non_finite || finite == 0;
  if (!all_finite(c.s.s_left.data(), static_cast<std::int64_t>(c.s.s_left.size()))) c.stats.non_finite = true;
}

void write_payloads(Encoding& c) {
  const float amax = c.t.format.granularity == Granularity::tensor ? c.k.finite_amax(c.e.data(), c.t.elements()) : 0.0f;
  ElementCounts counts;
  for (std::size_t shard = 0; shard < c.t.leg1.size(); ++shard) {
    const PayloadLayout& p = c.t.leg1[shard];
    std::byte* out = c.args.payloads[shard];
    if (p.total_bytes > 0) std::memset(out, 0, static_cast<std::size_t>(p.total_bytes));
    if (!c.s.s_left.empty()) write_s_left(c.t, p, c.s.s_left, out);
    if (p.row_begin == p.row_end) continue;
    if (!c.s.s_right.empty()) write_s_right(c.t, p, c.s.s_right.data() + p.row_begin * c.t.rank_right(), out);
    if (c.t.mixes_rows()) write_bitmap(p, c.row_zero.data() + p.row_begin, out);
    c.k.encode_elements(c.t.format, p.elem, c.e.data() + cell(c, p.row_begin), p.row_begin, amax, c.args.key, Stage::sender,
                        out + p.elem_offset, &counts);
  }
  c.stats.saturated = counts.saturated;
  c.stats.top_codes = counts.top_codes;
  c.stats.bottom_codes = counts.bottom_codes;
}

/// Reads the elements back as a receiver will, measures what they lost, and puts it into the residual row by row.
void feed_back(Encoding& c) {
  Floats decoded(c.e.size());
  for (std::size_t shard = 0; shard < c.t.leg1.size(); ++shard) {
    const PayloadLayout& p = c.t.leg1[shard];
    if (p.row_begin == p.row_end) continue;
    c.k.decode_elements(c.t.format, p.elem, c.args.payloads[shard] + p.elem_offset, 0, p.row_end - p.row_begin,
                        decoded.data() + cell(c, p.row_begin));
  }
  for (std::size_t i = 0; i < c.e.size(); ++i) {
    const double lost = static_cast<double>(c.e[i]) - static_cast<double>(decoded[i]);
    if (std::isfinite(lost)) c.stats.error_energy += lost * lost;
  }
  if (c.args.residual == nullptr) return;
  const bool way_back = residual_needs_way_back(c.t);
  if (way_back) map_back(c.k, c.t, c.s, decoded);
  const Floats& sent = way_back ? c.original : c.e;
  for (std::size_t i = 0; i < sent.size(); ++i) decoded[i] = sent[i] - decoded[i];
  for (std::int64_t row = 0; row < c.t.rows; ++row) {
    const float* fresh = decoded.data() + cell(c, row);
    const bool write = c.row_finite[static_cast<std::size_t>(row)] != 0 && all_finite(fresh, c.t.cols);
    c.args.row_written[row] = write ? 1 : 0;
    if (write && c.t.cols > 0) {
      std::memcpy(c.args.residual + cell(c, row), fresh, static_cast<std::size_t>(c.t.cols) * sizeof(float));
    }
  }
}

}  // namespace

Status encode(const Kernels& kernels, const EncodeArgs& args) {
  const FpEnvironment environment;
  const TensorPlan& t = *args.tensor;
  const auto rows = static_cast<std::size_t>(t.rows);
  Encoding c{kernels, args, t, {}, {}, {}, std::vector<std::uint8_t>(rows, 1), std::vector<std::uint8_t>(rows, 0), {}};
  load_and_map(c);
  write_payloads(c);
  if (args.residual != nullptr || args.stats != nullptr) feed_back(c);
  if (args.stats != nullptr) *args.stats = c.stats;
  return Status();
}

}  // namespace gift::ref
