// C entry points for programs that open libgift_mpi.so with dlopen and know nothing of MPI.
#include <algorithm>
#include <cstring>

#include "gift/mpi.hpp"

namespace {

bool initialised_here = false;

void say(char* error, std::size_t size, const std::string& text) {
  if (!error || size == 0) return;
  const std::size_t length = std::min(text.size(), size - 1);
  std::memcpy(error, text.data(), length);
  error[length] = '\0';
}

}  // namespace

extern "C" {

gift::Transport* gift_mpi_open_world(int* argc, char*** argv, char* error, std::size_t size) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    int level = 0;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
      say(error, size, "MPI_Init_thread failed");
      return nullptr;
    }
    initialised_here = true;
  }
  gift::Result<std::unique_ptr<gift::Transport>> transport = gift::make_mpi_transport(MPI_COMM_WORLD);
  if (!transport.ok()) {
    say(error, size, transport.status().message());
    return nullptr;
  }
  return transport.value().release();
}

void gift_mpi_close_world(gift::Transport* transport) {
  delete transport;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (initialised_here && !finalized) MPI_Finalize();
  initialised_here = false;
}

void gift_mpi_abort(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

const char* gift_mpi_version(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (text[0] == '\0') {
    MPI_Get_library_version(text, &length);
    for (char& c : text)
      if (c == '\n') c = ' ';
  }
  return text;
}

}  // extern "C"
