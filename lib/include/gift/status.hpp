// Status and Result: how every fallible call of libgift reports what went wrong.
// Nothing in the library throws, exits or prints on its own account.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "gift/export.hpp"

namespace gift {

/// What kind of thing went wrong. The values are stable: they travel in packet headers and the C API.
enum class Code : unsigned char {
  ok = 0,
  invalid_argument = 1,  ///< the caller's values cannot be used (shape, pointer, recipe)
  io = 2,                ///< the operating system refused a read or a write
  bad_file = 3,          ///< a file is not what it claims to be
  bad_packet = 4,        ///< bytes from another rank do not parse or fail their checksum
  mismatch = 5,          ///< ranks disagree (counts, formats, recipe, basis, step, code version)
  timeout = 6,           ///< a rank did not arrive before the deadline
  unavailable = 7,       ///< a backend, device or transport that was asked for is not there
  numeric = 8,           ///< a factorisation failed its own checks
  out_of_memory = 9,
  peer_failed = 10,  ///< another rank reported an error; the message is that rank's
  internal = 11,     ///< a bug in libgift
};

/// Short stable name of a code, e.g. "bad_file".
GIFT_API const char* code_name(Code code) noexcept;

/// Outcome of a call: `ok()`, or a code and one line of text that names file, tensor, rank and values.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const noexcept { return code_ == Code::ok; }
  Code code() const noexcept { return code_; }
  /// One line without a line break; empty when ok.
  const std::string& message() const noexcept { return message_; }

  /// The same error with `where + ": "` in front (a file or tensor name). No effect when ok.
  Status at(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A value or the Status that says why there is none. `value()` may be called only when `ok()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace gift
