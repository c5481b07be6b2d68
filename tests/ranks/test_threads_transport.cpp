// The threads transport: every call at every world size, and every way in which ranks can fail to meet.
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "rank_threads.hpp"
#include "transport_checks.hpp"

using namespace gift;
using namespace gift::tests;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> on_all_ranks(int size, const std::function<std::string(int, Transport&)>& body,
                                      std::chrono::milliseconds deadline = 60s, std::size_t segment_bytes = 0) {
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  run_ranks(
      size, [&](int rank, Transport& t) { texts[static_cast<std::size_t>(rank)] = body(rank, t); }, deadline, segment_bytes);
  return texts;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("threads transport: bytes arrive where they should, 1 to 15 ranks", "[ranks][transport]") {
  for (int size = 1; size <= 15; ++size)
    for (const std::size_t segment : {std::size_t{0}, std::size_t{7}})
      for (const std::string& text : on_all_ranks(
               size, [](int, Transport& t) { return check_transport(t, 100); }, 60s, segment)) {
        INFO("world " << size << ", segment " << segment);
        CHECK(text == "");
      }
}

TEST_CASE("threads transport: bytes sent to others are counted, to oneself not", "[ranks][transport]") {
  std::vector<std::uint64_t> sent(3);
  run_ranks(3, [&](int rank, Transport& t) {
    std::vector<std::byte> data(10), all(30);
    const std::vector<ConstBytes> send(3, data);
    const std::vector<Bytes> recv = {Bytes(all).first(10), Bytes(all).subspan(10, 10), Bytes(all).last(10)};
    if (t.all_to_all(send, recv).ok() && t.all_gather(data, recv).ok()) sent[static_cast<std::size_t>(rank)] = t.bytes_sent();
  });
  CHECK(sent == std::vector<std::uint64_t>{40, 40, 40});
}

TEST_CASE("threads transport: a rank that does not arrive is named, and all later calls fail", "[ranks][transport]") {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> later(4);
  const auto texts = on_all_ranks(
      4,
      [&](int rank, Transport& t) -> std::string {
        if (rank == 2) {
          std::this_thread::sleep_for(600ms);  // arrives, but late
          return t.barrier().message();
        }
        const Status s = t.barrier();
        later[static_cast<std::size_t>(rank)] = t.barrier().message();
        return s.code() == Code::timeout ? s.message() : "no timeout";
      },
      200ms);
  for (const std::string& text : texts) CHECK(text == "rank 2 did not arrive at barrier number 1 within 200 ms");
  CHECK(later[0] == texts[0]);
  CHECK(seconds_since(start) < 10);
}

TEST_CASE("threads transport: one rank gives up, the others fail soon with its message", "[ranks][transport]") {
  const auto start = std::chrono::steady_clock::now();
  const auto texts = on_all_ranks(5, [](int rank, Transport& t) -> std::string {
    if (rank == 3) {
      std::this_thread::sleep_for(50ms);
      t.abort({Code::io, "basis.safetensors: no such file"});
      return t.barrier().message();
    }
    const Status s = t.barrier();
    return s.code() == Code::peer_failed ? s.message() : "wrong code";
  });
  for (const std::string& text : texts) CHECK(text == "rank 3: basis.safetensors: no such file");
  CHECK(seconds_since(start) < 10);
}

TEST_CASE("threads transport: a rank that leaves is named", "[ranks][transport]") {
  auto transports = make_threads_transports(3);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] { texts[rank] = transports[rank]->barrier().message(); });
  transports[2].reset();
  for (auto& thread : threads) thread.join();
  CHECK(texts[0] == "rank 2 has left");
  CHECK(texts[1] == "rank 2 has left");
}

TEST_CASE("threads transport: different calls and different sizes are errors, equal on all ranks", "[ranks][transport]") {
  for (const std::string& text : on_all_ranks(3, [](int rank, Transport&t) {
         std::vector<float> values(4);
         return rank == 1 ? t.small_all_reduce_sum(values).message() : t.barrier().message();
       }))
    CHECK(text == "rank 1 called small_all_reduce_sum, rank 0 called barrier");
  for (const std::string& text : on_all_ranks(3, [](int rank, Transport&t) {
         std::vector<float> values(rank == 2 ? 5 : 4);
         return t.small_all_reduce_sum(values).message();
       }))
    CHECK(text == "small_all_reduce_sum: rank 0 sends 16 bytes to rank 2, which expects 20");
}
