// MPI transport (libgift_mpi.so). The only public header that includes mpi.h.
#pragma once

#include <mpi.h>

#include <memory>

#include "gift/transport.hpp"

namespace gift {

/// A transport over the caller's communicator, which is used as it is (never duplicated, never freed) with tags from `first_tag`
/// on; MPI must be initialised. Messages above `chunk_bytes` are split, so counts stay in 32 bits; it must be equal on all ranks,
/// as must `first_tag`. Waiting polls, so deadlines hold.
GIFT_API Result<std::unique_ptr<Transport>> make_mpi_transport(MPI_Comm comm, int first_tag = 0,
                                                               std::size_t chunk_bytes = std::size_t{1} << 30);

}  // namespace gift

extern "C" {
/// For programs that open libgift_mpi.so by dlopen (gift itself): initialise MPI if nobody has, make a transport over
/// MPI_COMM_WORLD, finalise. `error` receives one line (size bytes at most). Null on failure.
GIFT_API gift::Transport* gift_mpi_open_world(int* argc, char*** argv, char* error, std::size_t size);
/// Destroys the transport and finalises MPI if gift_mpi_open_world initialised it.
GIFT_API void gift_mpi_close_world(gift::Transport* transport);
/// MPI_Abort on all ranks with this exit code.
GIFT_API void gift_mpi_abort(int exit_code);
/// "Open MPI v4.1.4, ..."
GIFT_API const char* gift_mpi_version(void);
}
