// What the parts of recipe handling share. Private.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gift/status.hpp"

namespace gift {

/// Position of a '[' without its ']' in a pattern, or npos.
std::size_t unclosed_set(std::string_view pattern) noexcept;

/// The text as the TOML parser may see it, every character at its line and column; or why it may not.
Result<std::string> prepare_recipe_text(std::string_view text, const std::string& shown_origin);

}  // namespace gift
