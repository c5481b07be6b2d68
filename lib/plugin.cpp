// Where plug-ins are looked for.
#include "plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "gift/version.hpp"

namespace gift {
namespace {

/// The folder of the object this code is in (libgift.so, or a program that links it statically), with a slash at its end.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&version_number), &info) == 0 || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

Result<void*> open_plugin(const std::string& file, const std::string& build_folder, int flags) {
  const std::string folder = own_folder();
  std::string path = file;  // no slash: the loader searches
  for (const auto& candidate : {folder + file, folder + build_folder + "/" + file}) {
    if (!folder.empty() && access(candidate.c_str(), F_OK) == 0) {
      path = candidate;
      break;
    }
  }
  if (void* handle = dlopen(path.c_str(), flags)) return handle;
  const char* why = dlerror();
  return Status(Code::unavailable, why ? why : file + ": cannot be opened");
}

}  // namespace gift
