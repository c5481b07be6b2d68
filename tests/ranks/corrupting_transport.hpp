// A transport that does to bytes what a bad link or a bad rank would. Wraps another one.
#pragma once

#include <functional>

#include "gift/transport.hpp"

namespace gift::tests {

class CorruptingTransport final : public Transport {
 public:
  explicit CorruptingTransport(Transport& inner) : inner_(inner) {}
  /// Called with what is about to be sent to each rank (a copy) or with what has arrived from each.
  std::function<void(int to, std::vector<std::byte>&bytes)> before_all_to_all, before_all_gather;
  std::function<void(int from, Bytes bytes)> after_all_gather;

  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  const char* name() const noexcept override { return "corrupting"; }
  void set_deadline(std::chrono::milliseconds deadline) noexcept override { inner_.set_deadline(deadline); }
  void abort(const Status& why) noexcept override { inner_.abort(why); }
  std::uint64_t bytes_sent() const noexcept override { return inner_.bytes_sent(); }
  Status barrier() override { return inner_.barrier(); }
  Status small_all_reduce_sum(std::span<float> values) override { return inner_.small_all_reduce_sum(values); }

  Status all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> recv) override {
    std::vector<std::vector<std::byte>> copies;
    std::vector<ConstBytes> spans;
    for (std::size_t k = 0; k < send.size(); ++k) {
      copies.emplace_back(send[k].begin(), send[k].end());
      if (before_all_to_all) before_all_to_all(static_cast<int>(k), copies.back());
    }
    for (const auto& copy : copies) spans.emplace_back(copy);
    return inner_.all_to_all(spans, recv);
  }
  Status all_gather(ConstBytes send, std::span<const Bytes> recv) override {
    std::vector<std::byte> copy(send.begin(), send.end());
    if (before_all_gather) before_all_gather(-1, copy);
    Status status = inner_.all_gather(copy, recv);
    for (std::size_t k = 0; status.ok() && after_all_gather && k < recv.size(); ++k)
      after_all_gather(static_cast<int>(k), recv[k]);
    return status;
  }

 private:
  Transport& inner_;
};

}  // namespace gift::tests
