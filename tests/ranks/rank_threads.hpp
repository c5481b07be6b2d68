// Runs one function a rank, each in a thread of its own, over the threads transport.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gift/transport.hpp"

namespace gift::tests {

/// body(rank, transport) in `size` threads; returns when all have returned. Catch2's macros are not thread-safe: collect results,
/// check them afterwards.
inline void run_ranks(int size, const std::function<void(int, Transport&)>& body,
                      std::chrono::milliseconds deadline = std::chrono::seconds(60), std::size_t segment_bytes = 0) {
  std::vector<std::unique_ptr<Transport>> transports = make_threads_transports(size, segment_bytes);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Transport& transport = *transports[static_cast<std::size_t>(rank)];
      transport.set_deadline(deadline);
      body(rank, transport);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace gift::tests
