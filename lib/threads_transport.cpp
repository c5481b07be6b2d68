// Ranks as threads of one process. Every collective is a rendezvous: publish what I send and where I receive, wait for all, check
// that all made the same call with sizes that fit, copy what is mine, wait until all have copied.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>

#include "gift/transport.hpp"

namespace gift {
namespace {

enum class Call : std::uint8_t { all_to_all, all_gather, sum, barrier };

const char* call_name(Call call) noexcept {
  switch (call) {
    case Call::all_to_all:
      return "all_to_all";
    case Call::all_gather:
      return "all_gather";
    case Call::sum:
      return "small_all_reduce_sum";
    case Call::barrier:
      return "barrier";
  }
  return "?";
}

/// What one rank does at the moment. Guarded by Shared::mutex, but for the memory that the spans point to.
struct Slot {
  std::uint64_t arrived = 0;  ///< number of the call it has entered
  std::uint64_t copying = 0;  ///< number of the call whose data it is reading, 0 if none
  std::uint64_t done = 0;     ///< number of the last call it has read everything of
  Call call = Call::barrier;
  std::vector<ConstBytes> send;  ///< by destination
  std::vector<std::size_t> recv_bytes;
};

struct Shared {
  explicit Shared(std::size_t size) : slots(size) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slot> slots;
  Status closed;  ///< why nothing works any more
};

std::string rank_list(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Shared> shared, std::size_t rank, std::size_t segment_bytes)
      : shared_(std::move(shared)), rank_(rank), segment_bytes_(segment_bytes) {}

  /// A rank that goes away while others wait for it must not cost them the whole deadline.
  ~ThreadsTransport() override {
    const std::lock_guard lock(shared_->mutex);
    close(Status(Code::peer_failed, "rank " + std::to_string(rank_) + " has left"));
  }

  int rank() const noexcept override { return static_cast<int>(rank_); }
  int size() const noexcept override { return static_cast<int>(shared_->slots.size()); }
  const char* name() const noexcept override { return "threads"; }
  void set_deadline(std::chrono::milliseconds deadline) noexcept override { deadline_ = deadline; }
  std::uint64_t bytes_sent() const noexcept override { return bytes_sent_; }

  Status all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> recv) override {
    if (send.size() != shared_->slots.size() || recv.size() != shared_->slots.size())
      return give_up({Code::invalid_argument, "all_to_all needs one span for each rank"});
    return meet(Call::all_to_all, {send.begin(), send.end()}, recv, [&] {
      for (std::size_t k = 0; k < recv.size(); ++k) copy(shared_->slots[k].send[rank_], recv[k]);
    });
  }

  Status all_gather(ConstBytes send, std::span<const Bytes> recv) override {
    if (recv.size() != shared_->slots.size()) return give_up({Code::invalid_argument, "all_gather needs one span for each rank"});
    return meet(Call::all_gather, std::vector<ConstBytes>(recv.size(), send), recv, [&] {
      for (std::size_t k = 0; k < recv.size(); ++k) copy(shared_->slots[k].send[rank_], recv[k]);
    });
  }

  Status small_all_reduce_sum(std::span<float> values) override {
    std::vector<float> sum(values.size());
    const std::vector<ConstBytes> send(shared_->slots.size(), std::as_bytes(values));
    const std::vector<Bytes> recv(shared_->slots.size(), std::as_writable_bytes(std::span(sum)));
    const Status status = meet(Call::sum, send, recv, [&] {
      std::vector<float> theirs(values.size());
      for (std::size_t k = 0; k < recv.size(); ++k) {
        copy(shared_->slots[k].send[rank_], std::as_writable_bytes(std::span(theirs)));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = k == 0 ? theirs[i] : sum[i] + theirs[i];
      }
    });
    if (status.ok()) std::copy(sum.begin(), sum.end(), values.begin());
    return status;
  }

  Status barrier() override {
    const std::vector<ConstBytes> send(shared_->slots.size());
    const std::vector<Bytes> recv(shared_->slots.size());
    return meet(Call::barrier, send, recv, [] {});
  }

  void abort(const Status& why) noexcept override {
    const std::lock_guard lock(shared_->mutex);
    close({Code::peer_failed, "rank " + std::to_string(rank_) + ": " + why.message()});
  }

 private:
  using Clock = std::chrono::steady_clock;

  Status meet(Call call, std::vector<ConstBytes> send, std::span<const Bytes> recv, const std::function<void()>& read) {
    const std::size_t size = shared_->slots.size();
    std::unique_lock lock(shared_->mutex);
    Slot& mine = shared_->slots[rank_];
    if (!shared_->closed.ok()) return closed();
    const Clock::time_point until = Clock::now() + deadline_;
    const std::uint64_t number = ++mine.arrived;
    mine.call = call;
    mine.send = std::move(send);
    mine.recv_bytes.clear();
    for (const Bytes& r : recv) mine.recv_bytes.push_back(r.size());
    shared_->changed.notify_all();

    if (Status s = wait(lock, until, call, number, &Slot::arrived); !s.ok()) return s;
    if (Status s = check(); !s.ok()) return fail(s);
    if (!shared_->closed.ok()) return closed();  // who closed may be gone, and its buffers with it
    mine.copying = number;
    lock.unlock();
    read();  // others' memory: they stay in this call while `copying` says that it is read
    lock.lock();
    mine.copying = 0;
    mine.done = number;
    shared_->changed.notify_all();
    if (Status s = wait(lock, until, call, number, &Slot::done); !s.ok()) {
      // The caller may free its buffers once this returns: not while a peer is in the middle of a copy from them.
      shared_->changed.wait(lock, [&] {
        return std::none_of(shared_->slots.begin(), shared_->slots.end(),
                            [&](const Slot& slot) { return slot.copying == number; });
      });
      return s;
    }
    for (std::size_t k = 0; k < size; ++k)
      if (k != rank_) bytes_sent_ += mine.send[k].size();
    return {};
  }

  /// Waits until all slots' `field` has reached `number`, the deadline passes or someone closes.
  Status wait(std::unique_lock<std::mutex>& lock, Clock::time_point until, Call call, std::uint64_t number,
              std::uint64_t Slot::*field) {
    std::vector<std::size_t> missing;
    const bool woken = shared_->changed.wait_until(lock, until, [&] {
      missing.clear();
      for (std::size_t k = 0; k < shared_->slots.size(); ++k)
        if (shared_->slots[k].*field < number) missing.push_back(k);
      return missing.empty() || !shared_->closed.ok();
    });
    if (missing.empty()) return {};
    if (woken) return closed();
    return fail({Code::timeout, rank_list(missing) + " did not arrive at " + call_name(call) + " number " +
                                    std::to_string(number) + " within " + std::to_string(deadline_.count()) + " ms"});
  }

  /// All ranks are here: did they make the same call, with sizes that fit? Every rank looks at all pairs in the same order, so
  /// that all find the same error.
  Status check() const {
    const std::vector<Slot>& slots = shared_->slots;
    for (std::size_t k = 0; k < slots.size(); ++k)
      if (slots[k].call != slots[0].call)
        return {Code::mismatch, "rank " + std::to_string(k) + " called " + call_name(slots[k].call) + ", rank 0 called " +
                                    call_name(slots[0].call)};
    for (std::size_t from = 0; from < slots.size(); ++from)
      for (std::size_t to = 0; to < slots.size(); ++to)
        if (slots[from].send[to].size() != slots[to].recv_bytes[from])
          return {Code::mismatch, std::string(call_name(slots[0].call)) + ": rank " + std::to_string(from) + " sends " +
                                      std::to_string(slots[from].send[to].size()) + " bytes to rank " + std::to_string(to) +
                                      ", which expects " + std::to_string(slots[to].recv_bytes[from])};
    return {};
  }

  void copy(ConstBytes from, Bytes to) const noexcept {
    const std::size_t step = segment_bytes_ ? segment_bytes_ : from.size();
    for (std::size_t at = 0; at < from.size(); at += step)
      std::memcpy(to.data() + at, from.data() + at, std::min(step, from.size() - at));
  }

  /// Closes for all ranks; the first reason stays. Needs the lock.
  void close(const Status& why) {
    if (shared_->closed.ok()) shared_->closed = why;
    shared_->changed.notify_all();
  }
  Status fail(const Status& why) {
    close(why);
    return closed();
  }
  Status give_up(const Status& why) {
    const std::lock_guard lock(shared_->mutex);
    return fail(why);
  }
  Status closed() const { return shared_->closed; }

  std::shared_ptr<Shared> shared_;
  std::size_t rank_, segment_bytes_;
  std::chrono::milliseconds deadline_ = std::chrono::seconds(300);
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_threads_transports(int size, std::size_t segment_bytes) {
  std::vector<std::unique_ptr<Transport>> transports;
  if (size <= 0) return transports;
  const auto shared = std::make_shared<Shared>(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    transports.push_back(std::make_unique<ThreadsTransport>(shared, static_cast<std::size_t>(rank), segment_bytes));
  return transports;
}

}  // namespace gift
