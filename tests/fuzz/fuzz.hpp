// What the fuzz targets share. A target is one function over hostile bytes; it is linked either with libFuzzer (clang++,
// -Dfuzz=true) or with replay_main.cpp, which runs it over the committed corpus as an ordinary test under any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "gift/status.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace gift::fuzz {

/// Stops the run, as a crash does, with the reason on stderr.
[[noreturn]] inline void stop(const char* what, const std::string& detail) {
  std::fprintf(stderr, "fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

inline void require(bool condition, const char* what, const std::string& detail = "") {
  if (!condition) stop(what, detail);
}

inline void require_one_line(const Status& status) {
  require(!status.ok() && !status.message().empty(), "an error with a message");
  for (const char c : status.message()) require(static_cast<unsigned char>(c) >= 0x20, "one line of text", status.message());
}

/// A refusal is a code other than "a bug in libgift" and one line of text that begins with where it happened.
inline void require_refusal(const Status& status, const std::string& begins) {
  require_one_line(status);
  require(status.code() != Code::internal, "a refusal with a proper code", status.message());
  require(status.message().starts_with(begins), "a message that names its origin", status.message());
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

}  // namespace gift::fuzz
