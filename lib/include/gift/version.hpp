// Versions and build facts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gift/export.hpp"

namespace gift {

GIFT_API const char* version() noexcept;           ///< "0.1.0"
GIFT_API std::uint32_t version_number() noexcept;  ///< major*10^6 + minor*10^3 + patch
/// Lines "BLAS: ...", "MPI: ...", "CUDA: ...", "instruction sets: ...": what was built in and what was found.
GIFT_API std::vector<std::string> build_facts();

}  // namespace gift
