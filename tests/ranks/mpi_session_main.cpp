// Sessions under mpirun: the bytes of every rank's results and residuals must be those of the threads transport and of the codec
// called rank by rank. Rank 0 prints a hash for each case and "N passed, N failed"; any failure makes the exit code 1.
#include <cstdio>
#include <cstring>

#include "gift/mpi.hpp"
#include "packet.hpp"
#include "rank_threads.hpp"
#include "session_cases.hpp"

using namespace gift;
using namespace gift::tests;

namespace {

/// One hash of all that a run left behind.
std::uint64_t hash_of(const Outcome& outcome) {
  std::vector<std::byte> all;
  const auto add = [&all](const void* data, std::size_t bytes) {
    const auto* p = static_cast<const std::byte*>(data);
    all.insert(all.end(), p, p + bytes);
  };
  add(outcome.error.data(), outcome.error.size());
  for (const Buffers& buffers : outcome.results)
    for (const auto& bytes : buffers) add(bytes.data(), bytes.size());
  for (const auto* kept : {&outcome.residuals, &outcome.owner_residuals})
    for (const auto& values : *kept) add(values.data(), 4 * values.size());
  return xxh3_64(all);
}

int run_cases(int rank, int size) {
  int cases = 0, passed = 0, failed = 0;
  for (const std::string format : {"fp32", "bf16", "e4m3", "nvfp4:sr", "mxfp4"})
    for (const GeometrySpec& geometry : all_geometries()) {
      if (format == std::string("fp32") && geometry.kind != GeometryKind::euclidean) continue;
      const World world = make_world(format, geometry, true, ReduceOp::mean);
      // Small chunks: every packet is cut.
      auto transport = make_mpi_transport(MPI_COMM_WORLD, 0, cases++ % 2 ? std::size_t{1} << 30 : std::size_t{333});
      const Outcome mine =
          transport.ok() ? run_session(world, *transport.value(), 3) : Outcome{transport.status().message(), {}, {}, {}, {}};
      const std::uint64_t hash = hash_of(mine);
      std::vector<std::uint64_t> hashes(static_cast<std::size_t>(size));
      MPI_Gather(&hash, 1, MPI_UINT64_T, hashes.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
      if (rank != 0) continue;
      std::vector<Outcome> threads(static_cast<std::size_t>(size));
      run_ranks(size, [&](int r, Transport& t) { threads[static_cast<std::size_t>(r)] = run_session(world, t, 3); });
      const std::vector<Outcome> reference = run_reference(world, size, 3);
      bool ok = mine.error.empty();
      for (std::size_t r = 0; r < hashes.size(); ++r)
        ok = ok && hashes[r] == hash_of(threads[r]) && hashes[r] == hash_of(reference[r]);
      ++(ok ? passed : failed);
      std::printf("%s %s %s %s: %016llx %s\n", ok ? "ok  " : "FAIL", format.c_str(), geometry_name(geometry.kind),
                  side_name(geometry.side), static_cast<unsigned long long>(hash), mine.error.c_str());
    }
  if (rank == 0) std::printf("world %d: %d passed, %d failed\n", size, passed, failed);
  return rank == 0 && (failed > 0 || passed == 0) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int code = run_cases(rank, size);
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return code;
}
