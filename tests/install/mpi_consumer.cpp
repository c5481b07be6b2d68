// A user's own MPI program with libgift's transport over its communicator; alone it is a world of one rank.
#include <gift/mpi.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool met = false;
  {
    auto transport = gift::make_mpi_transport(MPI_COMM_WORLD);
    met = transport.ok() && (*transport)->barrier().ok();
  }
  MPI_Finalize();
  return met ? 0 : 1;
}
