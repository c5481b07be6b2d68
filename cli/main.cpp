// gift: the command line. Registers the subcommands; each lives in its own cmd_*.cpp.
#include <cstdio>

#include "gift/version.hpp"

int main() {
  std::printf("gift %s\n", gift::version());
  return 0;
}
