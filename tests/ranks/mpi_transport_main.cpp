// The MPI transport under mpirun: the checks of transport_checks.hpp with several chunk limits, and the ways in which ranks can
// fail to meet. Rank 0 prints "N passed, N failed"; any failure makes the exit code 1.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "gift/mpi.hpp"
#include "transport_checks.hpp"

using namespace gift;
using namespace gift::tests;

namespace {

int passed = 0, failed = 0;

/// All ranks tell rank 0 by MPI itself, so that a broken transport cannot hide its own failure.
void report(const char* what, const std::string& mine) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char text[300] = {};
  std::strncpy(text, mine.c_str(), sizeof text - 1);
  std::vector<char> all(sizeof text * static_cast<std::size_t>(size));
  MPI_Gather(text, sizeof text, MPI_CHAR, all.data(), sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  bool ok = true;
  for (int k = 0; k < size; ++k)
    if (const char* t = &all[static_cast<std::size_t>(k) * sizeof text]; *t) {
      std::printf("FAILED %s: rank %d: %s\n", what, k, t);
      ok = false;
    }
  ++(ok ? passed : failed);
}

std::string expect(const std::string& got, const std::string& want) {
  return got == want ? std::string() : "got '" + got + "', expected '" + want + "'";
}

/// Each failure test has its own transport and its own tags: what it leaves in flight disturbs nobody.
int next_tag = 100;
std::unique_ptr<Transport> fresh(std::size_t chunk = std::size_t{1} << 30) {
  MPI_Barrier(MPI_COMM_WORLD);
  auto transport = make_mpi_transport(MPI_COMM_WORLD, next_tag += 16, chunk);
  return transport.ok() ? std::move(transport).value() : nullptr;
}

void failures(int rank, int size) {
  using namespace std::chrono_literals;
  const std::string last = std::to_string(size - 1);
  {
    auto t = fresh();
    t->set_deadline(300ms);
    if (rank == size - 1) std::this_thread::sleep_for(1500ms);
    report("a rank that does not arrive is named, on all ranks",
           expect(t->barrier().message(), "rank " + last + " did not arrive at barrier number 1 within 300 ms"));
  }
  {
    auto t = fresh();
    if (rank == size - 1) t->abort({Code::io, "basis.safetensors: no such file"});
    const Status s = t->barrier();
    report("a rank that gives up is heard", expect(s.message(), "rank " + last + ": basis.safetensors: no such file"));
    report("a closed transport stays closed", expect(t->barrier().message(), s.message()));
  }
  {
    auto t = fresh();
    std::vector<float> values(1);
    const Status s = rank == 0 ? t->small_all_reduce_sum(values) : t->barrier();
    report("different calls are noticed",
           s.code() == Code::mismatch && s.message().find("called") != std::string::npos ? "" : s.message());
  }
  for (const std::size_t chunk : {std::size_t{1} << 30, std::size_t{4}, std::size_t{8}}) {
    auto t = fresh(chunk);
    t->set_deadline(5000ms);
    std::vector<float> values(rank == size - 1 ? 3 : 2);
    const Status s = t->small_all_reduce_sum(values);
    report("different sizes are noticed", s.code() == Code::mismatch && s.message().find("bytes than") != std::string::npos
                                              ? ""
                                              : s.message() + " (code " + code_name(s.code()) + ")");
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const std::size_t chunk : {std::size_t{1} << 30, std::size_t{1000}, std::size_t{7}}) {
    auto t = fresh(chunk);
    report("bytes arrive where they should", check_transport(*t, chunk == 7 ? 50 : 20000));
  }
  if (size > 1) failures(rank, size);
  {
    auto bad = make_mpi_transport(MPI_COMM_WORLD, 0, 0);
    report("a chunk of no bytes is refused", bad.ok() ? "accepted" : "");
  }
  if (rank == 0) std::printf("world %d: %d passed, %d failed\n", size, passed, failed);
  MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed == 0 ? 0 : 1;
}
