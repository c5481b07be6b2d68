// The owner of a shard: decodes every sender by its own scales, adds in rank order from rank 0's value, and encodes the sum.
//
//   E = sum of E_r,  S = sum of S_r           FP32, rank order
//   E += (S_R - bf16 S_R) U_R^T               what BF16 loses of the sum is not lost; S_L's loss goes to `left_loss`, or S_L
//                                             travels in FP32 when there is no error feedback
//   E *= 1/N (mean);  E += owner's residual;  payload = S, zero rows, quantise(E)
#include <cmath>
#include <cstring>

#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

struct Reduction {
  const Kernels& k;
  const ReduceArgs& args;
  const TensorPlan& t;
  const PayloadLayout& in;
  const PayloadLayout& out;
  std::int64_t rows = 0, cells = 0;
  Floats e;         ///< rows x cols of the shard
  Projections s;    ///< S_R of the shard's rows; S_L rank x cols, of which the shard's columns are set
  Floats incoming;  ///< one sender's part
  EncodeStats stats;
};

/// sum <- sum + part, but the first part is taken as it is: starting from +0 would turn -0 into +0.
void accumulate(Floats& sum, const Floats& part, bool first) {
  if (first) {
    sum = part;
    return;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

void sum_elements(Reduction& c) {
  c.incoming.resize(static_cast<std::size_t>(c.cells));
  for (std::size_t rank = 0; rank < c.args.payloads.size() && c.cells > 0; ++rank) {
    c.k.decode_elements(c.t.format, c.in.elem, c.args.payloads[rank] + c.in.elem_offset, 0, c.rows, c.incoming.data());
    accumulate(c.e, c.incoming, rank == 0);
  }
}

void sum_right(Reduction& c) {
  if (!c.t.deflates() || !has_right(c.t.geometry.side) || c.rows == 0) return;
  const SideBasis& basis = c.t.basis->right;
  c.incoming.resize(static_cast<std::size_t>(c.rows * basis.rank));
  Floats& s = c.s.s_right;
  for (std::size_t rank = 0; rank < c.args.payloads.size(); ++rank) {
    read_s_right(c.t, c.in, c.args.payloads[rank], c.incoming.data());
    accumulate(s, c.incoming, rank == 0);
  }
  if (!all_finite(s.data(), static_cast<std::int64_t>(s.size()))) c.stats.non_finite = true;
  Floats& loss = c.incoming;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const float rounded = from_bf16(to_bf16(s[i]));
    loss[i] = s[i] - rounded;
    s[i] = rounded;
  }
  c.k.add_outer_right(c.e.data(), c.rows, c.t.cols, loss.data(), basis.u.data(), basis.rank, 1.0f);
}

void sum_left(Reduction& c) {
  if (!c.t.deflates() || !has_left(c.t.geometry.side)) return;
  Floats& s = c.s.s_left;
  c.incoming.resize(static_cast<std::size_t>(c.t.rank_left() * c.t.cols));
  for (std::size_t rank = 0; rank < c.args.payloads.size(); ++rank) {
    read_s_left(c.t, c.in, c.args.payloads[rank], c.incoming);
    accumulate(s, c.incoming, rank == 0);
  }
  float* loss = c.args.left_loss;
  for (std::int64_t j = 0; j < c.t.rank_left(); ++j) {
    for (std::int64_t col = c.in.col_begin; col < c.in.col_end; ++col) {
      float& value = s[static_cast<std::size_t>(j * c.t.cols + col)];
      if (!std::isfinite(value)) c.stats.non_finite = true;
      if (c.out.s_left_elem_bytes == 4) continue;
      const float rounded = from_bf16(to_bf16(value));
      *loss++ = value - rounded;
      value = rounded;
    }
  }
}

void average_and_add_residual(Reduction& c) {
  if (c.t.op == ReduceOp::mean) {
    const float share = 1.0f / static_cast<float>(c.t.world);
    for (float& value : c.e) value *= share;
  }
  for (std::size_t i = 0; c.args.owner_residual != nullptr && i < c.e.size(); ++i) c.e[i] += c.args.owner_residual[i];
  if (!all_finite(c.e.data(), c.cells)) c.stats.non_finite = true;
  if (c.cells > 0) std::memcpy(c.args.quantised, c.e.data(), static_cast<std::size_t>(c.cells) * sizeof(float));
}

/// A row is zero for all when every sender says so. Where rows are quantised as they are, the owner must owe it nothing either;
/// left whiten mixes rows before quantising, so what the owner owes there is not this row's.
std::vector<std::uint8_t> common_zero_rows(const Reduction& c) {
  std::vector<std::uint8_t> zero(static_cast<std::size_t>(c.rows), 1);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    bool is_zero = true;
    for (const std::byte* payload : c.args.payloads) is_zero = is_zero && row_bit(c.in, payload, row);
    if (c.t.deflates() && c.args.owner_residual != nullptr) {
      is_zero = is_zero && all_zero(c.args.owner_residual + row * c.t.cols, c.t.cols);
    }
    zero[static_cast<std::size_t>(row)] = is_zero ? 1 : 0;
  }
  return zero;
}

void write_payload(Reduction& c) {
  std::byte* out = c.args.payload;
  if (c.out.total_bytes > 0) std::memset(out, 0, static_cast<std::size_t>(c.out.total_bytes));
  if (!c.s.s_left.empty()) write_s_left(c.t, c.out, c.s.s_left, out);
  if (c.rows == 0) return;
  if (!c.s.s_right.empty()) write_s_right(c.t, c.out, c.s.s_right.data(), out);
  if (c.t.mixes_rows()) write_bitmap(c.out, common_zero_rows(c).data(), out);
  const float amax = c.t.format.granularity == Granularity::tensor ? c.k.finite_amax(c.e.data(), c.cells) : 0.0f;
  ElementCounts counts;
  c.k.encode_elements(c.t.format, c.out.elem, c.e.data(), c.out.row_begin, amax, c.args.key, Stage::owner,
                      out + c.out.elem_offset, &counts);
  c.stats.saturated = counts.saturated;
  c.stats.top_codes = counts.top_codes;
  c.stats.bottom_codes = counts.bottom_codes;
}

void measure(Reduction& c) {
  c.stats.energy = finite_energy(c.e.data(), c.cells);
  if (c.cells == 0) return;
  c.incoming.resize(static_cast<std::size_t>(c.cells));
  c.k.decode_elements(c.t.format, c.out.elem, c.args.payload + c.out.elem_offset, 0, c.rows, c.incoming.data());
  for (std::size_t i = 0; i < c.e.size(); ++i) {
    const double lost = static_cast<double>(c.e[i]) - static_cast<double>(c.incoming[i]);
    if (std::isfinite(lost)) c.stats.error_energy += lost * lost;
  }
}

}  // namespace

Status reduce(const Kernels& kernels, const ReduceArgs& args) {
  const FpEnvironment environment;
  const TensorPlan& t = *args.tensor;
  const auto shard = static_cast<std::size_t>(args.shard);
  Reduction c{kernels, args, t, t.leg1[shard], t.leg2[shard], 0, 0, {}, {}, {}, {}};
  c.rows = c.in.row_end - c.in.row_begin;
  c.cells = c.rows * t.cols;
  sum_elements(c);
  sum_right(c);
  sum_left(c);
  average_and_add_residual(c);
  write_payload(c);
  if (args.stats != nullptr) {
    measure(c);
    *args.stats = c.stats;
  }
  return Status();
}

}  // namespace gift::ref
