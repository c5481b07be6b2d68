// Opening the shared objects that libgift.so does not link: libgift_mpi.so, libgift_cuda.so.
#pragma once

#include <string>

#include "gift/status.hpp"

namespace gift {

/// dlopen of `file` ("libgift_mpi.so"): beside libgift.so, in its folder `build_folder` (the build tree), then wherever the
/// loader looks. The handle is never closed. `flags` are dlopen's. Code::unavailable with the loader's words if it is nowhere.
Result<void*> open_plugin(const std::string& file, const std::string& build_folder, int flags);

}  // namespace gift
