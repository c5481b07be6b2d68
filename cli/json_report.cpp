// Building and writing the JSON report.
#include "json_report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gift/version.hpp"
#include "numbers.hpp"

namespace gift::cli {

using Json = nlohmann::ordered_json;

struct JsonRow::Body {
  Json object = Json::object();
};

JsonRow::JsonRow() : body_(std::make_unique<Body>()) {}
JsonRow::~JsonRow() = default;
JsonRow::JsonRow(JsonRow&&) noexcept = default;

JsonRow& JsonRow::set(std::string_view key, double value) {
  const std::string name(key);
  if (std::isfinite(value)) {
    body_->object[name] = value;
    return *this;
  }
  body_->object[name] = nullptr;
  const std::string before = body_->object.contains("note") ? body_->object["note"].get<std::string>() + "; " : "";
  body_->object["note"] = before + name + " is " + format_real(value, 3);
  return *this;
}
JsonRow& JsonRow::set(std::string_view key, std::int64_t value) {
  body_->object[std::string(key)] = value;
  return *this;
}
JsonRow& JsonRow::set(std::string_view key, std::uint64_t value) {
  body_->object[std::string(key)] = value;
  return *this;
}
JsonRow& JsonRow::set(std::string_view key, bool value) {
  body_->object[std::string(key)] = value;
  return *this;
}
JsonRow& JsonRow::set(std::string_view key, const std::string& value) {
  body_->object[std::string(key)] = value;
  return *this;
}

JsonReport::JsonReport(std::string command) : command_(std::move(command)) {}
JsonReport::~JsonReport() = default;

JsonRow& JsonReport::add_row() { return rows_.emplace_back(); }
JsonRow& JsonReport::top() { return top_; }
void JsonReport::set_world_size(int world) { world_ = world; }
void JsonReport::add_warning(const std::string& message) { warnings_.push_back(message); }
void JsonReport::set_error(const std::string& message) {
  if (error_.empty()) error_ = message;
}

std::string JsonReport::text() const {
  Json object = {{"command", command_}, {"version", version()}, {"world_size", world_}};
  for (const auto& [key, value] : top_.body_->object.items()) object[key] = value;
  if (!error_.empty()) object["error"] = error_;
  if (!warnings_.empty()) object["warnings"] = warnings_;
  Json rows = Json::array();
  for (const auto& row : rows_) rows.push_back(row.body_->object);
  object["rows"] = std::move(rows);
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status JsonReport::write(const std::string& path) const {
  const auto failed = [&](const char* what) { return Status(Code::io, path + ": cannot " + what + ": " + std::strerror(errno)); };
  const std::string bytes = text(), temporary = path + ".tmp" + std::to_string(getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failed("create");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(file, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  Status status;
  if (done < bytes.size() || fsync(file) != 0) status = failed("write");
  if (close(file) != 0 && status.ok()) status = failed("close");
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = failed("rename into place");
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace gift::cli
