// How far a decoded gradient may be from the true one: bounds derived from the formats, element by element, in FP64. Private; the
// tests hold the whole pipeline against them, and they share no code with the codecs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gift/format.hpp"
#include "gift/plan.hpp"

namespace gift {

/// Adds to `bound` (rows x cols) the largest |x - decode(encode(x))| that `format` allows for each element of `x`, a shard that
/// is encoded alone. `tensor_amax`: what a `tensor` granularity takes its scale from.
///
/// With scale multiplier m (decode = code * m) the scaled value y = x / m lies between two codes that are spacing(|y|) apart, so
/// rounding to nearest loses at most spacing/2 and stochastic rounding less than spacing; a y beyond the largest code loses
/// |y| - largest more. Element types: E4M3 spacing 2^(e-3), at least 2^-9; E5M2 2^(e-2), at least 2^-16; E2M1 2^(e-1), at
/// least 1/2; BF16 2^(e-7), at least 2^-133, with e = floor(log2 |y|) and m = 1.
/// The multipliers: e4m3 and e5m2 m = amax / largest; mxfp8 and mxfp4 m = the power of two that is not below amax / largest
/// (floor rule: 2^(floor(log2 amax) - emax)); nvfp4 m = b * g with g = amax_row / 2688 and b = E4M3(amax_block / (6 g)), which is
/// rounded to nearest or, under stochastic rounding, up; b = 0 loses all of x.
/// Every FP32 operation on the way (scale, reciprocal, product, decode) adds at most 2^-24 of its result; `slack` covers a
/// handful of them, and the two sides of a scale that sits on a rounding boundary.
void add_quantisation_bound(const FormatSpec& format, const double* x, std::int64_t rows, std::int64_t cols, double tensor_amax,
                            double factor, double* bound);

/// The bound on |decoded - exact| for a two-shot reduction, in the coordinates that are quantised (rows x cols).
/// `mapped[r]`: what rank r quantised, as FP64; `quantised`: what the owners quantised, all shards in order.
///
/// Decoded minus exact is the sum of the senders' quantisation errors (over N for a mean) plus the owner's, each bounded above,
/// plus FP32 rounding: N sums and products, 2 rank of the maps and a few more, each at most 2^-24 of the sum of magnitudes that
/// meet in it. S adds nothing: what its BF16 loses is in E on the first leg and, on the right, folded into E on the second; S_L's
/// second leg is FP32. (Left deflation with error feedback sends S_L's sum in BF16 and keeps the loss in a residual: not
/// covered.)
std::vector<double> error_bound(const TensorPlan& tensor, std::span<const std::vector<double>> mapped,
                                const std::vector<double>& quantised);

}  // namespace gift
