// Any bytes as a basis file: refused with one line, or every layer seals to the hash that it claims.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.hpp"
#include "gift/basis.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gift;
  static const int fd = ::memfd_create("basis", MFD_CLOEXEC);  // a file that no disk has to carry
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  fuzz::require(fd >= 0 && ::ftruncate(fd, 0) == 0 && ::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size),
                "a file in memory");

  const auto set = load_basis(path);
  if (!set.ok()) {
    fuzz::require_refusal(set.status(), path);
    return 0;
  }
  for (const auto& [name, layer] : set->layers) {
    LayerBasis copy = *layer;
    fuzz::require(copy.seal().ok(), "a loaded layer seals", name);
    fuzz::require(copy.hash == layer->hash, "with the hash that it was loaded with", name);
  }
  return 0;
}
