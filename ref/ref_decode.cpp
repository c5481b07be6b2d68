// The last step of every rank: the gathered shards, mapped back into the caller's buffer with one rounding.
#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

void multiply(Floats& values, float factor) {
  for (float& value : values) value *= factor;
}

}  // namespace

Status decode(const Kernels& kernels, const DecodeArgs& args) {
  const FpEnvironment environment;
  const TensorPlan& t = *args.tensor;
  if (args.overflowed != nullptr) *args.overflowed = 0;
  if (args.non_finite) {
    store_nan(t, args.output);
    return Status();
  }
  Gathered g = gather(kernels, t, args.leg, args.payloads);
  if (args.leg == 2 && t.op == ReduceOp::mean) {
    // The owner divided E before quantising it; S travels as a sum, so that what BF16 lost of it could be folded exactly.
    const float share = 1.0f / static_cast<float>(t.world);
    multiply(g.s.s_right, share);
    multiply(g.s.s_left, share);
  }
  map_back(kernels, t, g.s, g.elements);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    if (g.zero_rows[static_cast<std::size_t>(row)] == 0) continue;
    for (std::int64_t col = 0; col < t.cols; ++col) g.elements[static_cast<std::size_t>(row * t.cols + col)] = 0.0f;
  }
  store_matrix(t, g.elements, args.output, args.overflowed);
  return Status();
}

}  // namespace gift::ref
