// Building and writing the JSON report.
#include "json_report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "gift/safetensors.hpp"
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
  const std::string bytes = text();
  return write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace gift::cli
