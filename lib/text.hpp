// Small helpers for one-line messages about untrusted text: names from files, words from recipes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gift {

/// `text` in single quotes, fit for one line of output: control characters and broken UTF-8 become \xNN, long text is cut.
std::string in_quotes(std::string_view text);

/// A file name as it is if it can stand in one line, else quoted.
std::string printable(std::string_view path);

/// Well-formed UTF-8 without overlong forms and surrogates (RFC 3629).
bool is_utf8(std::string_view text) noexcept;

/// A name that may stand in a file and in a message: not empty, UTF-8, no control characters. Returns why not, or "".
std::string name_fault(std::string_view name);

/// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// "; did you mean 'x'?" with the nearest of `words`, or "; valid are a, b, c" if none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& words);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// What the operating system says about `error_number`, without strerror's shared buffer.
std::string system_message(int error_number);

}  // namespace gift
