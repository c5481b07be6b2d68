// What the parts of recipe handling share. Private.
#pragma once

#include <cstddef>
#include <string_view>

namespace gift {

/// Position of a '[' without its ']' in a pattern, or npos.
std::size_t unclosed_set(std::string_view pattern) noexcept;

}  // namespace gift
