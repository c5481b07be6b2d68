// gift: the command line. Each command is one line in the table below and lives in its own cmd_*.cpp.
#include <cstdio>
#include <exception>

#include "cli.hpp"

int main(int argc, char** argv) {
  using namespace gift::cli;
  try {
    const std::vector<Command> commands = {
        // name, what `gift --help` says about it, the function in cmd_*.cpp; in order of name
        {"calibrate", "bases and a recipe from dumps of gradients or activations", add_calibrate},
        {"allreduce-test", "All-reduce between the ranks of an MPI job: bytes, time, fidelity, wrong elements",
         add_allreduce_test},
        {"verify", "Check that a backend computes the bytes that the specification says", add_verify},
    };
    return run_gift(argc, argv, commands);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gift: internal error: %s\n", error.what());
    return exit_failed;
  }
}
