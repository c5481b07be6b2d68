// Ranks as MPI processes. Everything is Isend and Irecv with polling, so that a deadline holds and a rank that gives up is heard:
// no collective of MPI's is used (it could not be left), and no reduction operator (an operator may be handed any piece of a
// vector).
//
// A message of n bytes travels as chunks of chunk_bytes, and its last chunk is always shorter than that (an empty one if need
// be). So a receiver that expects another size notices: some chunk is too long (MPI_ERR_TRUNCATE) or too short.
#include <algorithm>
#include <climits>
#include <cstring>
#include <thread>

#include "gift/mpi.hpp"

namespace gift {
namespace {

/// Tags from first_tag on: one for notices that a rank gives up, then one for each kind of call, so that ranks that make
/// different calls find out instead of reading each other's bytes.
enum Tag : int { tag_notice = 0, tag_all_to_all, tag_all_gather, tag_sum, tag_barrier, tag_count };

const char* call_name(int tag) noexcept {
  constexpr const char* names[tag_count] = {"notice", "all_to_all", "all_gather", "small_all_reduce_sum", "barrier"};
  return names[tag];
}

constexpr std::size_t notice_bytes = 1024;  ///< the code, then text

std::string mpi_error(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? std::string(text, static_cast<std::size_t>(length))
                                                              : "unknown error";
}

std::string rank_list(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

/// Requests of the call at hand; a completed one is MPI_REQUEST_NULL.
struct Pending {
  std::vector<MPI_Request> requests;
  std::vector<std::size_t> peers;
  std::vector<int> recv_counts;  ///< what a receive expects; -1 for a send
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int rank, int size, int first_tag, std::size_t chunk_bytes, MPI_Errhandler callers_handler)
      : comm_(comm),
        rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        first_tag_(first_tag),
        chunk_bytes_(chunk_bytes),
        callers_handler_(callers_handler) {}

  ~MpiTransport() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) return;
    MPI_Comm_set_errhandler(comm_, callers_handler_);
    MPI_Errhandler_free(&callers_handler_);
  }

  int rank() const noexcept override { return static_cast<int>(rank_); }
  int size() const noexcept override { return static_cast<int>(size_); }
  const char* name() const noexcept override { return "mpi"; }
  void set_deadline(std::chrono::milliseconds deadline) noexcept override { deadline_ = deadline; }
  std::uint64_t bytes_sent() const noexcept override { return bytes_sent_; }

  Status all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> recv) override {
    return exchange(tag_all_to_all, send, recv);
  }

  Status all_gather(ConstBytes send, std::span<const Bytes> recv) override {
    return exchange(tag_all_gather, std::vector<ConstBytes>(size_, send), recv);
  }

  /// Every rank gathers all vectors and adds them in rank order itself, so the order is fixed whatever MPI would do.
  Status small_all_reduce_sum(std::span<float> values) override {
    const std::size_t count = values.size();
    std::vector<float> all(count * size_);
    std::vector<Bytes> recv;
    for (std::size_t k = 0; k < size_; ++k) recv.push_back(std::as_writable_bytes(std::span(all).subspan(k * count, count)));
    if (Status s = exchange(tag_sum, std::vector<ConstBytes>(size_, std::as_bytes(values)), recv); !s.ok()) return s;
    for (std::size_t i = 0; i < count; ++i) {
      float sum = all[i];
      for (std::size_t k = 1; k < size_; ++k) sum += all[k * count + i];
      values[i] = sum;
    }
    return {};
  }

  Status barrier() override { return exchange(tag_barrier, std::vector<ConstBytes>(size_), std::vector<Bytes>(size_)); }

  void abort(const Status& why) noexcept override {
    if (closed_.ok()) closed_ = {Code::peer_failed, "rank " + std::to_string(rank_) + ": " + why.message()};
    notify();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Status exchange(int tag, std::span<const ConstBytes> send, std::span<const Bytes> recv) {
    listen();
    if (!closed_.ok()) return closed_;
    const std::string call = call_name(tag);
    if (send.size() != size_ || recv.size() != size_)
      return fail({Code::invalid_argument, call + " needs one span for each rank"});
    if (send[rank_].size() != recv[rank_].size())
      return fail({Code::mismatch, call + ": rank " + std::to_string(rank_) + " sends itself " +
                                       std::to_string(send[rank_].size()) + " bytes and expects " +
                                       std::to_string(recv[rank_].size())});
    ++calls_;
    pending_ = {};
    // Receives first, so that what arrives has a place to go; each rank starts with its neighbours, so that no rank is flooded.
    for (std::size_t i = 1; i < size_; ++i) {
      const std::size_t from = (rank_ + size_ - i) % size_;
      if (Status s = post_receive(tag, from, recv[from]); !s.ok()) return s;
    }
    for (std::size_t i = 1; i < size_; ++i) {
      const std::size_t to = (rank_ + i) % size_;
      if (Status s = post_send(tag, to, send[to]); !s.ok()) return s;
    }
    if (!send[rank_].empty()) std::memmove(recv[rank_].data(), send[rank_].data(), send[rank_].size());
    if (Status s = wait_all(tag); !s.ok()) return s;
    for (std::size_t k = 0; k < size_; ++k)
      if (k != rank_) bytes_sent_ += send[k].size();
    return {};
  }

  Status post_receive(int tag, std::size_t peer, Bytes into) {
    for (std::size_t at = 0;; at += chunk_bytes_) {
      const std::size_t count = std::min(chunk_bytes_, into.size() - at);
      MPI_Request request = MPI_REQUEST_NULL;
      const int rc = MPI_Irecv(into.data() + at, static_cast<int>(count), MPI_BYTE, static_cast<int>(peer), first_tag_ + tag,
                               comm_, &request);
      if (rc != MPI_SUCCESS) return fail(call_failed(tag, peer, rc));
      remember(request, peer, static_cast<int>(count));
      if (count < chunk_bytes_) return {};
    }
  }

  Status post_send(int tag, std::size_t peer, ConstBytes from) {
    for (std::size_t at = 0;; at += chunk_bytes_) {
      const std::size_t count = std::min(chunk_bytes_, from.size() - at);
      MPI_Request request = MPI_REQUEST_NULL;
      const int rc = MPI_Isend(from.data() + at, static_cast<int>(count), MPI_BYTE, static_cast<int>(peer), first_tag_ + tag,
                               comm_, &request);
      if (rc != MPI_SUCCESS) return fail(call_failed(tag, peer, rc));
      remember(request, peer, -1);
      if (count < chunk_bytes_) return {};
    }
  }

  void remember(MPI_Request request, std::size_t peer, int recv_count) {
    pending_.requests.push_back(request);
    pending_.peers.push_back(peer);
    pending_.recv_counts.push_back(recv_count);
  }

  Status call_failed(int tag, std::size_t peer, int rc) const {
    return {Code::io, std::string(call_name(tag)) + " with rank " + std::to_string(peer) + ": " + mpi_error(rc)};
  }

  Status wait_all(int tag) {
    const Clock::time_point start = Clock::now();
    Clock::time_point next_look = start + std::chrono::milliseconds(50);
    for (int idle = 0;;) {
      bool moved = false;
      if (Status s = test(tag, moved); !s.ok()) return fail(s);
      listen();
      if (!closed_.ok()) return give_back(closed_);
      if (open_peers(false).empty()) return {};
      const Clock::time_point now = Clock::now();
      if (now - start > deadline_) return fail(timed_out(tag));
      if (now > next_look) {
        if (Status s = look_for_other_calls(tag); !s.ok()) return fail(s);
        next_look = now + std::chrono::milliseconds(50);
      }
      idle = moved ? 0 : idle + 1;
      rest(idle);
    }
  }

  /// Ranks may outnumber cores: who waits lets others run, and sleeps when nothing happens for long.
  static void rest(int idle) {
    if (idle < 200)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(idle < 2000 ? 20 : 200));
  }

  /// Completes what can be completed and checks the sizes of what came in.
  Status test(int tag, bool& moved) {
    const int count = static_cast<int>(pending_.requests.size());
    if (count == 0) return {};
    indices_.resize(pending_.requests.size());
    statuses_.resize(pending_.requests.size());
    int done = 0;
    const int rc = MPI_Testsome(count, pending_.requests.data(), &done, indices_.data(), statuses_.data());
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS) return {Code::io, std::string(call_name(tag)) + ": " + mpi_error(rc)};
    if (done == MPI_UNDEFINED) return {};
    moved = done > 0;
    for (int i = 0; i < done; ++i) {
      const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
      const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
      const std::size_t peer = pending_.peers[index];
      if (rc == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
        int error_class = MPI_SUCCESS;
        MPI_Error_class(status.MPI_ERROR, &error_class);
        return error_class == MPI_ERR_TRUNCATE ? size_differs(tag, peer, "more") : call_failed(tag, peer, status.MPI_ERROR);
      }
      if (pending_.recv_counts[index] < 0) continue;
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      if (got != pending_.recv_counts[index]) return size_differs(tag, peer, "fewer");
    }
    return {};
  }

  Status size_differs(int tag, std::size_t peer, const char* how) const {
    return {Code::mismatch, std::string(call_name(tag)) + ": rank " + std::to_string(peer) + " sends " + how +
                                " bytes than rank " + std::to_string(rank_) + " expects"};
  }

  /// Peers with something open: receives only, or sends too.
  std::vector<std::size_t> open_peers(bool receives_only) const {
    std::vector<std::size_t> peers;
    for (std::size_t i = 0; i < pending_.requests.size(); ++i)
      if (pending_.requests[i] != MPI_REQUEST_NULL && (!receives_only || pending_.recv_counts[i] >= 0))
        peers.push_back(pending_.peers[i]);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
  }

  Status timed_out(int tag) const {
    std::vector<std::size_t> missing = open_peers(true);
    if (missing.empty()) missing = open_peers(false);
    return {Code::timeout, rank_list(missing) + " did not arrive at " + call_name(tag) + " number " + std::to_string(calls_) +
                               " within " + std::to_string(deadline_.count()) + " ms"};
  }

  /// A rank whose message of this call has not come, but one of another call has, is somewhere else in the program. (It cannot be
  /// ahead of us: messages of one sender are matched in order, and those of this call would be complete.)
  Status look_for_other_calls(int tag) {
    for (const std::size_t peer : open_peers(true))
      for (int other = tag_all_to_all; other < tag_count; ++other) {
        if (other == tag) continue;
        int found = 0;
        const int rc = MPI_Iprobe(static_cast<int>(peer), first_tag_ + other, comm_, &found, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS) return call_failed(other, peer, rc);
        if (!found) continue;
        bool moved = false;
        if (Status s = test(tag, moved); !s.ok()) return s;
        const std::vector<std::size_t> still_open = open_peers(true);
        if (!std::binary_search(still_open.begin(), still_open.end(), peer)) continue;
        return {Code::mismatch, "rank " + std::to_string(peer) + " called " + call_name(other) + ", rank " +
                                    std::to_string(rank_) + " called " + call_name(tag)};
      }
    return {};
  }

  /// Has a rank given up?
  void listen() noexcept {
    int found = 0;
    MPI_Status status;
    if (!closed_.ok() || MPI_Iprobe(MPI_ANY_SOURCE, first_tag_ + tag_notice, comm_, &found, &status) != MPI_SUCCESS || !found)
      return;
    char text[notice_bytes];
    int length = 0;
    if (MPI_Recv(text, static_cast<int>(sizeof text), MPI_BYTE, status.MPI_SOURCE, first_tag_ + tag_notice, comm_, &status) !=
            MPI_SUCCESS ||
        MPI_Get_count(&status, MPI_BYTE, &length) != MPI_SUCCESS || length < 1)
      closed_ = {Code::peer_failed, "rank " + std::to_string(status.MPI_SOURCE) + ": gave up"};
    else
      closed_ = {static_cast<unsigned char>(text[0]) <= static_cast<unsigned char>(Code::internal) ? static_cast<Code>(text[0])
                                                                                                   : Code::peer_failed,
                 std::string(text + 1, static_cast<std::size_t>(length - 1))};
  }

  /// Closes with `why`, tells the others, gives the buffers back.
  Status fail(const Status& why) {
    if (closed_.ok()) {
      closed_ = why;
      notify();
    }
    return give_back(closed_);
  }

  /// Sends the notice to everyone, once. Small messages leave at once; a peer that does not listen is given one second.
  void notify() noexcept {
    if (notified_) return;
    notified_ = true;
    const std::string& text = closed_.message();
    const std::size_t length = std::min(text.size(), notice_bytes - 1);
    notice_[0] = static_cast<char>(closed_.code());
    std::memcpy(notice_ + 1, text.data(), length);
    std::vector<MPI_Request> requests(size_, MPI_REQUEST_NULL);
    for (std::size_t k = 0; k < size_; ++k)
      if (k != rank_)
        MPI_Isend(notice_, static_cast<int>(length + 1), MPI_BYTE, static_cast<int>(k), first_tag_ + tag_notice, comm_,
                  &requests[k]);
    settle(requests, std::chrono::seconds(1));
  }

  /// After an error: cancels receives, so that nothing is written into the caller's buffers later. A transfer in full flight
  /// cannot be cancelled in MPI; it is given a second to end, which it needs only if its sender has died in the middle of it.
  Status give_back(const Status& why) {
    for (std::size_t i = 0; i < pending_.requests.size(); ++i)
      if (pending_.requests[i] != MPI_REQUEST_NULL && pending_.recv_counts[i] >= 0) MPI_Cancel(&pending_.requests[i]);
    settle(pending_.requests, std::chrono::seconds(1));
    return why;
  }

  static void settle(std::vector<MPI_Request>& requests, std::chrono::seconds limit) noexcept {
    const Clock::time_point until = Clock::now() + limit;
    for (int done = 0; !done && Clock::now() < until; std::this_thread::yield()) {
      done = 1;
      for (MPI_Request& request : requests) {
        int one = 1;
        if (request != MPI_REQUEST_NULL) MPI_Test(&request, &one, MPI_STATUS_IGNORE);
        done = done && one;
      }
    }
  }

  MPI_Comm comm_;
  std::size_t rank_, size_;
  int first_tag_;
  std::size_t chunk_bytes_;
  MPI_Errhandler callers_handler_;
  std::chrono::milliseconds deadline_ = std::chrono::seconds(300);
  std::uint64_t bytes_sent_ = 0, calls_ = 0;
  Status closed_;
  bool notified_ = false;
  char notice_[notice_bytes] = {};
  Pending pending_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mpi_transport(MPI_Comm comm, int first_tag, std::size_t chunk_bytes) {
  int initialized = 0, finalized = 0, rank = 0, size = 0, level = MPI_THREAD_SINGLE, has_limit = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized) return Status(Code::invalid_argument, "MPI is not initialised");
  if (comm == MPI_COMM_NULL) return Status(Code::invalid_argument, "the communicator is MPI_COMM_NULL");
  if (chunk_bytes == 0 || chunk_bytes > INT_MAX)
    return Status(Code::invalid_argument,
                  "chunk_bytes is " + std::to_string(chunk_bytes) + ", must be 1 to " + std::to_string(INT_MAX));
  int* tag_limit = nullptr;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &tag_limit, &has_limit);
  if (first_tag < 0 || (has_limit && first_tag > *tag_limit - tag_count))
    return Status(Code::invalid_argument, "first_tag is " + std::to_string(first_tag) + ", too large for this MPI");
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_FUNNELED) {
    int main_thread = 0;
    MPI_Is_thread_main(&main_thread);
    if (!main_thread) return Status(Code::invalid_argument, "MPI was initialised for its main thread only (MPI_THREAD_SINGLE)");
  }
  MPI_Errhandler callers_handler = MPI_ERRHANDLER_NULL;
  if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS || MPI_Comm_size(comm, &size) != MPI_SUCCESS ||
      MPI_Comm_get_errhandler(comm, &callers_handler) != MPI_SUCCESS ||
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) != MPI_SUCCESS)
    return Status(Code::invalid_argument, "the communicator cannot be used");
  return std::unique_ptr<Transport>(new MpiTransport(comm, rank, size, first_tag, chunk_bytes, callers_handler));
}

}  // namespace gift
