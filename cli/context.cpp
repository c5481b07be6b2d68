// What a running command talks through, and the strict options.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli.hpp"

namespace gift::cli {

Status Context::save_report() {
  if (report_path_.empty() || !speaks_ || report_saved_) return {};
  report_saved_ = true;
  return json.write(report_path_);
}

Context::Context(std::string command, bool quiet) : json(command), command_(std::move(command)), quiet_(quiet), bar_(!quiet) {}

void Context::set_ranks(int rank, int world) {
  json.set_world_size(world);
  speaks_ = rank == 0;
  if (!speaks_) bar_.disable();
}

Progress Context::progress() {
  return [this](std::int64_t done, std::int64_t total, const std::string& what) { bar_.update(done, total, what); };
}

void Context::print(const std::string& text) {
  if (quiet_ || !speaks_) return;
  bar_.clear();
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Context::print(const Table& table) {
  // mpirun gives its ranks a terminal of their own, wherever its output goes: no colours there.
  const bool launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  print(table.text(!launched && isatty(STDOUT_FILENO) != 0));
}

void Context::warn(const std::string& message) {
  json.add_warning(message);
  if (!speaks_) return;
  bar_.clear();
  std::fprintf(stderr, "gift %s: warning: %s\n", command_.c_str(), one_line(message).c_str());
}

int Context::report_error(const std::string& message, int code) {
  json.set_error(message);
  if (speaks_) {
    bar_.clear();
    std::fprintf(stderr, "gift %s: %s\n", command_.c_str(), one_line(message).c_str());
  }
  return code;
}

int Context::fail(const Status& status) {
  return report_error(status.message(), status.code() == Code::unavailable ? exit_no_device : exit_failed);
}
int Context::fail_check(const std::string& message) { return report_error(message, exit_failed); }
int Context::fail_usage(const std::string& message) { return report_error(message, exit_usage); }

std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      if (!out.empty() && out.back() != ' ') out += "; ";
    } else {
      out += c;
    }
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == ';')) out.pop_back();
  return out;
}

namespace {

/// An option whose text goes through `parse`, a Result-returning function of numbers.hpp.
template <class Parse, class Store>
CLI::Option* add_parsed(CLI::App& app, const std::string& names, const std::string& help, const char* type, Parse parse,
                        Store store) {
  const std::string shown = names.substr(names.rfind(',') == std::string::npos ? 0 : names.rfind(',') + 1);
  const auto read = [=](const std::string& text) {
    auto parsed = parse(text);
    if (!parsed.ok()) throw CLI::ValidationError(shown, parsed.status().message());
    store(std::move(*parsed));
  };
  return app.add_option_function<std::string>(names, read, help)->type_name(type);
}

/// A comma-separated list, each item through `parse`.
template <class T, class Parse>
CLI::Option* add_parsed_list(CLI::App& app, const std::string& names, std::vector<T>& values, const std::string& help,
                             const char* type, Parse parse) {
  const auto parse_all = [parse](const std::string& text) -> Result<std::vector<T>> {
    auto items = parse_list(text);
    if (!items.ok()) return items.status();
    std::vector<T> parsed;
    for (const auto& item : *items) {
      auto value = parse(item);
      if (!value.ok()) return value.status();
      parsed.push_back(static_cast<T>(*value));
    }
    return parsed;
  };
  return add_parsed(app, names, help, type, parse_all, [&values](std::vector<T>&& parsed) { values = std::move(parsed); });
}

}  // namespace

CLI::Option* add_size(CLI::App& app, const std::string& names, std::int64_t& value, const std::string& help) {
  return add_parsed(app, names, help, "SIZE", parse_size, [&value](std::int64_t parsed) { value = parsed; });
}

CLI::Option* add_sizes(CLI::App& app, const std::string& names, std::vector<std::int64_t>& values, const std::string& help) {
  return add_parsed_list(app, names, values, help, "SIZE,...", parse_size);
}

CLI::Option* add_count(CLI::App& app, const std::string& names, std::int64_t& value, std::int64_t least,
                       const std::string& help) {
  const auto parse = [least](const std::string& text) { return parse_count(text, least); };
  return add_parsed(app, names, help, "N", parse, [&value](std::int64_t parsed) { value = parsed; });
}

CLI::Option* add_counts(CLI::App& app, const std::string& names, std::vector<std::int32_t>& values, std::int32_t least,
                        const std::string& help) {
  const auto parse = [least](const std::string& text) -> Result<std::int64_t> {
    auto value = parse_count(text, least);
    if (value.ok() && *value > INT32_MAX) return Status(Code::invalid_argument, "'" + text + "' is more than 2147483647");
    return value;
  };
  return add_parsed_list(app, names, values, help, "N,...", parse);
}

CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(app, names, help, "X", parse_real, [&value](double parsed) { value = parsed; });
}

CLI::Option* add_percent(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(app, names, help, "P%", parse_percent, [&value](double parsed) { value = parsed; });
}

CLI::Option* add_words(CLI::App& app, const std::string& names, std::vector<std::string>& values, const std::string& help) {
  const auto keep = [](const std::string& text) -> Result<std::string> { return text; };
  return add_parsed_list(app, names, values, help, "WORD,...", keep);
}

}  // namespace gift::cli
