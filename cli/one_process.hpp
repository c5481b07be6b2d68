// A whole two-shot reduction in one process: every rank's part computed one after the other, in rank order, by calls of the
// codec. What ranks computed together must be this, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "gift/codec.hpp"

namespace gift::cli {

/// inputs[rank]: its gradient (FP32, rows x cols). First reduction: residuals are zero, random step 0. Returns the result.
Result<std::vector<float>> reduce_in_one_process(const Codec& codec, const TensorPlan& tensor, std::uint64_t seed,
                                                 const std::vector<std::vector<float>>& inputs);

}  // namespace gift::cli
