// One line of `gift allreduce-test`: a set of gradients reduced by a session, timed and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gift/plan.hpp"
#include "gift/status.hpp"
#include "gift/transport.hpp"

namespace gift::cli {

struct AllreduceCase {
  Recipe recipe;
  std::vector<TensorDesc> tensors;
  BasisSet bases;
  std::vector<std::vector<float>> inputs;  ///< this rank's gradient of each tensor
  std::string backend = "cpu";
  std::int64_t warmup = 1, iterations = 1;
  /// Wrong elements of a result of this rank, by tensor; null: results are compared with the same reduction computed in one
  /// process.
  std::function<std::int64_t(std::size_t tensor, const std::vector<float>& result)> count_wrong;
  bool compare_with_one_process = false;
  bool measure_error = true;  ///< RelL2 against the FP64 mean (or sum) of all ranks' inputs
};

/// The same on all ranks.
struct AllreduceResult {
  std::int64_t bytes = 0, count = 0;  ///< of the FP32 gradients
  double time_s = 0;                  ///< of one reduce and wait: mean over iterations, of the slowest rank
  double encode_s = 0, exchange_s = 0, reduce_s = 0, gather_s = 0, decode_s = 0;  ///< parts of it on rank 0
  double wire_bytes = 0;                                                          ///< sent by a rank, mean over ranks
  double wire_ratio = 0;    ///< over what an FP32 two-shot would send; with one rank: payload over FP32
  double rel_l2 = -1;       ///< -1: not measured
  std::int64_t wrong = -1;  ///< summed over ranks; -1: not counted
  bool replicas_equal = false;
  std::vector<std::string> vanished;  ///< tensors whose result is all zero though some gradient was not
  std::vector<std::string> non_finite;
};

/// Collective. Errors are the same on all ranks, but for those of a transport that broke.
Result<AllreduceResult> run_case(Transport& transport, const AllreduceCase& work);

/// Format and coordinates of a plan for a table: of its tensors that are not exempt, "mixed" if they differ.
std::string format_text(const Plan& plan);
std::string coordinates_text(const Plan& plan);

}  // namespace gift::cli
