// The only file that names the backends. A name opens what it says or is an error; nothing falls back to something else.
#include <dlfcn.h>

#include <string>

#include "backend.hpp"
#include "plugin.hpp"

namespace gift {
namespace {

/// What libgift_cuda.so exports: a backend for the first device, or null with a reason.
using MakeCudaBackend = Status(std::shared_ptr<const Backend>& backend);

Result<std::shared_ptr<const Backend>> open_cuda() {
  Result<void*> handle = open_plugin("libgift_cuda.so", "../cuda", RTLD_NOW | RTLD_LOCAL);
  if (!handle.ok()) {
    return Status(Code::unavailable, "this build has no CUDA backend (" + handle.status().message() + ")");
  }
  void* symbol = dlsym(*handle, "gift_make_cuda_backend");
  if (symbol == nullptr) {
    return Status(Code::unavailable, "libgift_cuda.so has no gift_make_cuda_backend: it is from another version of libgift");
  }
  std::shared_ptr<const Backend> backend;
  const Status status = reinterpret_cast<MakeCudaBackend*>(symbol)(backend);
  if (!status.ok()) return status;
  if (!backend) return Status(Code::internal, "libgift_cuda.so returned no backend and no reason");
  return backend;
}

}  // namespace

Result<std::shared_ptr<const Backend>> open_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "ref") return make_ref_backend();
  if (name == "cuda") return open_cuda();
  return Status(Code::unavailable, "there is no backend '" + name + "': libgift knows cpu, ref and cuda");
}

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> list;
  for (const char* name : {"cpu", "ref", "cuda"}) {
    Result<std::shared_ptr<const Backend>> opened = open_backend(name);
    list.push_back({name, opened.ok(), opened.ok() ? (*opened)->describe() : opened.status().message()});
  }
  return list;
}

}  // namespace gift
