// Version of the library.
#include "gift/version.hpp"

namespace gift {

const char* version() noexcept { return GIFT_VERSION; }

}  // namespace gift
