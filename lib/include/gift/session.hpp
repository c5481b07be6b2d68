// Session: averages or sums the gradients of a plan over ranks, step after step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gift/export.hpp"
#include "gift/plan.hpp"
#include "gift/status.hpp"
#include "gift/transport.hpp"

namespace gift {

struct SessionOptions {
  std::string backend = "cpu";   ///< Codec::open
  std::uint64_t first_step = 0;  ///< step number of the first reduce
};

/// A gradient in the caller's memory: read as this rank's gradient, overwritten with the result in `wait`.
struct TensorBuffer {
  std::int64_t tensor = -1;  ///< index in Plan::tensors()
  void* data = nullptr;      ///< elements of the tensor's dtype, any alignment
  std::int64_t count = 0;    ///< must be the tensor's element count
};

/// What one reduce did to one tensor; the same on all ranks but for the local fields.
struct TensorReport {
  std::int64_t tensor = -1;
  bool non_finite = false;            ///< some rank had NaN or Inf: the whole tensor is NaN on all ranks, residuals are as before
  std::int32_t non_finite_rank = -1;  ///< the lowest such rank; -1 if it arose in a sum
  std::uint64_t saturated = 0;        ///< local
  std::uint64_t overflowed = 0;       ///< values that did not fit the caller's F16 or BF16
  bool vanished = false;              ///< some rank's gradient (with its residual) is not zero, and yet the result is all zero
  double local_rel_l2 = 0;            ///< local: |X - decode(encode(X))| / |X| of this rank's own encode
};

struct ReduceReport {
  std::uint64_t step = 0;
  std::vector<TensorReport> tensors;
  std::uint64_t bytes_sent = 0;  ///< to other ranks in this call, headers and checks included
  double encode_s = 0, exchange_s = 0, reduce_s = 0, gather_s = 0, decode_s = 0;
};

/// Collective object: every rank opens it with an equal plan. Owns residuals and packet buffers; borrows the transport, which
/// must outlive it. Thread safety: one thread at a time; several sessions may live in several threads.
class GIFT_API Session {
 public:
  /// All-gathers the plan's fingerprint; where ranks differ, all of them get the same error, which names rank, field, value and
  /// rank 0's value.
  static Result<std::unique_ptr<Session>> open(Plan plan, Transport& transport, SessionOptions options = {});
  ~Session();

  const Plan& plan() const noexcept;
  std::uint64_t step() const noexcept;

  /// Reduces `buffers` (each tensor at most once) up to the point where every rank holds every shard; they must stay untouched
  /// until `wait`. All tensors of the plan: no extra message. Fewer: ranks compare their lists first. A rank whose arguments are
  /// wrong still takes part, so that every rank returns the same error and none waits. After an error that all ranks saw
  /// (arguments, disagreement, a damaged packet) buffers and residuals are as they were, and the session can be used again. After
  /// any other error (a rank that is gone, a packet damaged for one receiver alone) all ranks' sessions are closed and say why.
  Status reduce(std::span<const TensorBuffer> buffers);
  /// Completes it: results are in the buffers, residuals are committed, the step counts one up.
  Result<ReduceReport> wait();

  /// Replaces bases (a refresh). Collective. Residuals that live in a basis are re-expressed, nothing is lost. Errors leave the
  /// session as it was, on all ranks.
  Status set_bases(const BasisSet& bases);

  /// Residuals, counters, seed and step by parameter name, in one safetensors file a rank. Crash-safe. Not collective.
  Status save(const std::string& path) const;
  /// Loads what `save` wrote under an equal plan and the same rank. Errors leave the session as it was. Collective.
  Status load(const std::string& path);

  /// A copy of a tensor's residual (rows x cols FP32; empty without error feedback) and of this rank's owner residual (its rows x
  /// cols).
  std::vector<float> residual(std::int64_t tensor) const;
  std::vector<float> owner_residual(std::int64_t tensor) const;

 private:
  Session();
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace gift
