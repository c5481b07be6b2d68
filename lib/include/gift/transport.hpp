// Transport: the one small interface that carries bytes between ranks. It moves bytes and adds FP32 numbers; it
// never sees a code, so a sum over codes cannot be asked of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gift/export.hpp"
#include "gift/status.hpp"

namespace gift {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Ranks that exchange bytes. All calls are collective: every rank makes the same calls in the same order. A call
/// returns within the deadline; after an error the transport is closed, and every later call returns that error.
/// Thread safety: one thread at a time. Buffers belong to the caller and may be reused when the call returns.
class GIFT_API Transport {
 public:
  virtual ~Transport();
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// "threads", "mpi", ...
  virtual const char* name() const noexcept = 0;

  /// send[k] goes to rank k and arrives in that rank's recv[rank()]; send[k].size() on the sender equals
  /// recv[sender].size() on the receiver. Sizes may differ from pair to pair, zero included, and exceed 2^31.
  virtual Status all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> recv) = 0;

  /// `send` arrives in recv[rank()] of every rank, the sender's own included; recv[k].size() is the size rank k sends.
  virtual Status all_gather(ConstBytes send, std::span<const Bytes> recv) = 0;

  /// values <- sum over ranks, added in FP32 in rank order from rank 0's value: the same bytes on all ranks.
  virtual Status small_all_reduce_sum(std::span<float> values) = 0;

  /// Returns when all ranks have called it. Names the ranks that did not arrive when the deadline passes.
  virtual Status barrier() = 0;

  /// Time limit for each later call; 300 s unless set.
  virtual void set_deadline(std::chrono::milliseconds deadline) noexcept = 0;

  /// Makes every other rank's pending and later calls fail soon, with `why`. For a rank that has to give up.
  virtual void abort(const Status& why) noexcept = 0;

  /// Bytes this rank has sent to other ranks so far (its messages to itself are not counted).
  virtual std::uint64_t bytes_sent() const noexcept = 0;
};

/// `size` transports over threads of this process: the i-th belongs to rank i and is used by one thread.
/// `segment_bytes` > 0 moves data in pieces of at most that size (tests).
GIFT_API std::vector<std::unique_ptr<Transport>> make_threads_transports(int size, std::size_t segment_bytes = 0);

/// All ranks learn whether any failed: returns ok on all, or on all the error of the lowest rank that has one,
/// with "rank R: " in front. Use it before collectives whenever inputs were checked rank by rank.
GIFT_API Status agree(Transport& transport, const Status& local);

}  // namespace gift
