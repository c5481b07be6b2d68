// Opening libgift_mpi.so: beside libgift.so (installed), in its build folder, then wherever the loader looks.
#include "mpi_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "gift/version.hpp"

namespace gift::cli {

/// The C entry points of gift/mpi.hpp, which gift itself does not include: it is built without MPI.
struct Ranks::Library {
  Transport* (*open_world)(int*, char***, char*, std::size_t) = nullptr;
  void (*close_world)(Transport*) = nullptr;
  void (*abort)(int) = nullptr;
};

namespace {

std::string folder_of_libgift() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&gift::version_number), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

/// MPI's own plug-ins look their symbols up globally, so RTLD_GLOBAL. Never closed: MPI does not survive it.
Result<void*> open_library() {
  const std::string folder = folder_of_libgift();
  std::string path = "libgift_mpi.so.0";
  for (const char* place : {"libgift_mpi.so.0", "mpi/libgift_mpi.so.0", "mpi/libgift_mpi.so"})
    if (!folder.empty() && access((folder + place).c_str(), R_OK) == 0) {
      path = folder + place;
      break;
    }
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  const char* why = dlerror();
  return Status(Code::unavailable, std::string("the MPI transport cannot be opened: ") + (why ? why : path.c_str()));
}

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

Launcher find_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    char* end = nullptr;
    const long ranks = std::strtol(value, &end, 10);
    if (*end == '\0' && ranks > 0 && ranks <= 1 << 24) return {static_cast<int>(ranks), name};
  }
  return {};
}

Ranks::Ranks() = default;

Ranks::~Ranks() {
  if (library_ && transport_) library_->close_world(transport_);
}

void Ranks::abort_all(int exit_code) noexcept {
  if (library_ && transport_ && transport_->size() > 1) library_->abort(exit_code);
}

Result<std::unique_ptr<Ranks>> Ranks::open() {
  const Launcher launcher = find_launcher();
  std::unique_ptr<Ranks> ranks(new Ranks());
  const std::string started = launcher.variable + " says " + std::to_string(launcher.ranks) + " ranks, but ";
  if (launcher.ranks == 0) {
    ranks->alone_ = make_threads_transports(1);
    ranks->transport_ = ranks->alone_[0].get();
    return ranks;
  }
  const Result<void*> handle = open_library();
  if (!handle.ok()) {
    if (launcher.ranks > 1) return Status(Code::unavailable, started + handle.status().message());
    ranks->alone_ = make_threads_transports(1);
    ranks->transport_ = ranks->alone_[0].get();
    return ranks;
  }
  auto library = std::make_unique<Library>();
  if (!find(handle.value(), "gift_mpi_open_world", library->open_world) ||
      !find(handle.value(), "gift_mpi_close_world", library->close_world) ||
      !find(handle.value(), "gift_mpi_abort", library->abort))
    return Status(Code::unavailable, "libgift_mpi.so is from another version of libgift");
  char error[512] = {};
  Transport* transport = library->open_world(nullptr, nullptr, error, sizeof error);
  if (!transport) return Status(Code::unavailable, std::string("MPI does not start: ") + error);
  ranks->library_ = std::move(library);
  ranks->transport_ = transport;
  if (transport->size() < launcher.ranks)
    return Status(Code::io, started + "this program sees " + std::to_string(transport->size()) +
                                (transport->size() == 1 ? ": was it built for another MPI than the launcher's?" : ""));
  return ranks;
}

}  // namespace gift::cli
