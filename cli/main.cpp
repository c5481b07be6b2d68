// gift: the command line. Each command is one line in the table below and lives in its own cmd_*.cpp.
#include <cstdio>
#include <exception>

#include "cli.hpp"

int main(int argc, char** argv) {
  using namespace gift::cli;
  try {
    const std::vector<Command> commands = {
        // name, what `gift --help` says about it, the function in cmd_*.cpp; in order of name
        {"allreduce-test", "All-reduce between the ranks of an MPI job: bytes, time, fidelity, wrong elements",
         add_allreduce_test},
        {"calibrate", "Bases and a recipe from dumps of gradients or activations", add_calibrate},
        {"export", "Write a basis file out of another: fewer layers, fewer columns", add_export},
        {"fidelity", "How faithful formats and coordinates are on your own gradients", add_fidelity},
        {"inspect", "Say what a dump, basis, session state or recipe is and holds", add_inspect},
        {"verify", "Check that a backend computes the bytes that the specification says", add_verify},
    };
    return run_gift(argc, argv, commands);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gift: internal error: %s\n", error.what());
    return exit_failed;
  }
}
