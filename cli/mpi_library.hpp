// Ranks for commands that need them: libgift_mpi.so, opened when asked for, or one rank alone.
#pragma once

#include <memory>
#include <string>

#include "gift/status.hpp"
#include "gift/transport.hpp"

namespace gift::cli {

/// The ranks of this run. Destroying it finalises MPI.
class Ranks {
 public:
  /// Under a launcher (its variables say so) over MPI, else one rank in this process. Refused if the launcher started more ranks
  /// than are seen here: then every process would work alone and report success.
  static Result<std::unique_ptr<Ranks>> open();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Transport& transport() noexcept { return *transport_; }
  /// Ends all ranks with this exit code; for a rank that cannot go on. Returns only without MPI.
  void abort_all(int exit_code) noexcept;

 private:
  struct Library;
  Ranks();
  std::unique_ptr<Library> library_;
  std::vector<std::unique_ptr<Transport>> alone_;
  Transport* transport_ = nullptr;
};

/// What a launcher's environment says: how many ranks it started and by which variable it says so; 0 if there is no launcher.
struct Launcher {
  int ranks = 0;
  std::string variable;
};
Launcher find_launcher();

}  // namespace gift::cli
