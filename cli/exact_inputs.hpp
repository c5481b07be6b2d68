// Gradients whose sum is known exactly, whatever the format: then "wrong" is a count and not a tolerance.
#pragma once

#include <cstdint>
#include <vector>

#include "gift/format.hpp"

namespace gift::cli {

/// False where a format has no such inputs: nvfp4 with stochastic rounding rounds its block scales up on purpose.
bool has_exact_inputs(const FormatSpec& format) noexcept;

/// The exact sum over `world` ranks of element `index` of a rows x cols matrix. Every number that arises on the way (a rank's
/// value, a scale, the sum) is one that `format` represents exactly: values are small integers times the format's natural unit,
/// the largest of which stands at the start of every scale block, so that each scale is a power of two (or an exact code of one).
float exact_sum(const FormatSpec& format, std::int64_t cols, std::int64_t index) noexcept;

/// What rank `rank` of `world` contributes. Blocks of `exact_block` elements along a row go round the ranks: one adds twice the
/// sum, the next one takes it away once, the others have zeros.
float exact_input(const FormatSpec& format, std::int64_t cols, std::int64_t index, int rank, int world) noexcept;

/// Elements of `result` that are not exactly the known sum over `share` (1 for a sum, the number of ranks, a power of two, for a
/// mean); NaN counts as wrong.
std::int64_t count_wrong(const FormatSpec& format, std::int64_t cols, const std::vector<float>& result, float share = 1) noexcept;

/// Deterministic values, about normal with strength 1e-3, for figures of merit.
float noisy_input(std::int64_t index, int rank) noexcept;

}  // namespace gift::cli
