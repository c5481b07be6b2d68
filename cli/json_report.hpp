// The object that --json FILE writes: command, version, world_size, rows, and the error if there was one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "gift/status.hpp"

namespace gift::cli {

/// One flat object. Keys are snake_case; keys appear in the order in which they were set. NaN and Inf, which JSON does not have,
/// become null and a sentence in the row's "note".
class JsonRow {
 public:
  JsonRow();
  ~JsonRow();
  JsonRow(JsonRow&&) noexcept;
  JsonRow& set(std::string_view key, double value);
  JsonRow& set(std::string_view key, std::int64_t value);
  JsonRow& set(std::string_view key, std::uint64_t value);
  JsonRow& set(std::string_view key, std::int32_t value) { return set(key, static_cast<std::int64_t>(value)); }
  JsonRow& set(std::string_view key, std::uint32_t value) { return set(key, static_cast<std::uint64_t>(value)); }
  JsonRow& set(std::string_view key, bool value);
  JsonRow& set(std::string_view key, const std::string& value);
  JsonRow& set(std::string_view key, const char* value) { return set(key, std::string(value)); }

 private:
  friend class JsonReport;
  struct Body;
  std::unique_ptr<Body> body_;
};

class JsonReport {
 public:
  explicit JsonReport(std::string command);
  ~JsonReport();

  /// A new row; the reference stays valid.
  JsonRow& add_row();
  /// Fields of the object itself, beside `rows` ("device", "basis_hash", ...).
  JsonRow& top();
  void set_world_size(int world);
  void add_warning(const std::string& message);
  /// The first error is kept.
  void set_error(const std::string& message);

  /// Always valid JSON, UTF-8 (bytes that are not become U+FFFD), with a line break at the end.
  std::string text() const;
  /// Temporary file, fsync, rename: FILE is the old one or the whole new one.
  Status write(const std::string& path) const;

 private:
  std::string command_, error_;
  int world_ = 1;
  std::deque<JsonRow> rows_;
  std::deque<std::string> warnings_;
  JsonRow top_;
};

}  // namespace gift::cli
