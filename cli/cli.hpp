// What every subcommand of gift is written against. cmd_NAME.cpp parses, calls the library, prints; all else is here, once.
//
// To add a command:
//   1. cmd_NAME.cpp:   gift::cli::Run gift::cli::add_NAME(CLI::App& app)   adds the options and returns what runs after parsing.
//   2. here, below:    its declaration, in the list at the end of this file.
//   3. main.cpp:       one line in the table `commands`.
//   4. meson.build:    'cmd_NAME.cpp' in cli_sources.
// --help, --version, --json FILE and --quiet are added to every command by app.cpp: do not add them yourself.
//
//   Run add_verify(CLI::App& app) {
//     auto options = std::make_shared<VerifyOptions>();
//     app.add_option("--backend", options->backend, "cpu or cuda")->capture_default_str();
//     return [options](Context& context) -> int {
//       auto report = verify(*options, context.progress());
//       if (!report.ok()) return context.fail(report.status());   // the error line, the JSON's "error", the exit code
//       Table table({{"what", Align::left}, {"compared", Align::right}});
//       for (const auto& row : report->rows) {
//         table.add({row.what, std::to_string(row.compared)});
//         context.json.add_row().set("what", row.what).set("compared", row.compared);
//       }
//       context.print(table);
//       return report->passed() ? exit_ok : context.fail_check("bytes differ from the specification");
//     };
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gift/calibrate.hpp"
#include "gift/status.hpp"
#include "json_report.hpp"
#include "numbers.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace gift::cli {

/// Exit codes, the same for every command.
inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;     ///< a check failed, or an error at run time
inline constexpr int exit_usage = 2;      ///< the command line cannot be used
inline constexpr int exit_no_device = 3;  ///< a backend, device or transport that was asked for is not there

/// What a running command talks through. Errors go to stderr as one line `gift COMMAND: ...`, all else to stdout.
class Context {
 public:
  Context(std::string command, bool quiet);

  const std::string& command() const noexcept { return command_; }
  bool quiet() const noexcept { return quiet_; }
  JsonReport json;

  /// Under mpirun: from here on only rank 0 prints and writes the JSON file, and `world_size` is `world`.
  void set_ranks(int rank, int world);
  bool speaks() const noexcept { return speaks_; }

  /// Where --json goes; app.cpp sets it.
  void set_report_path(const std::string& path) { report_path_ = path; }
  /// Writes the JSON file once: here if a command calls it, else when the command returns. Under mpirun a rank that exits with an
  /// error has the others killed, so rank 0 saves before it lets them go.
  Status save_report();

  /// For the library's long calls: a bar on stderr if that is a terminal, else nothing. Must not outlive the context.
  Progress progress();

  /// Text (add your own line breaks) or a table on stdout; nothing with --quiet.
  void print(const std::string& text);
  void print(const Table& table);
  /// One line on stderr, `gift COMMAND: warning: ...`; also in the JSON's "warnings".
  void warn(const std::string& message);

  /// An error at run time: the line on stderr, "error" in the JSON; returns exit_no_device for Code::unavailable, else
  /// exit_failed.
  int fail(const Status& status);
  /// A check that came out wrong; returns exit_failed.
  int fail_check(const std::string& message);
  /// Options that parse one by one but not together; returns exit_usage.
  int fail_usage(const std::string& message);

 private:
  int report_error(const std::string& message, int code);

  std::string command_, report_path_;
  bool report_saved_ = false;
  bool quiet_ = false, speaks_ = true;
  ProgressBar bar_;
};

/// What a command does once its options are parsed; returns the exit code.
using Run = std::function<int(Context&)>;

struct Command {
  const char* name;
  const char* summary;  ///< one line without a full stop, shown by `gift --help`
  Run (*add)(CLI::App& app);
};

/// Parses, dispatches, writes the JSON file, returns the exit code. Throws nothing but what a command throws.
int run_gift(int argc, char** argv, const std::vector<Command>& commands);

/// One line out of any text: line breaks become "; ".
std::string one_line(const std::string& text);

/// Before hours of work: can a file be written there? Ok for an empty path.
Status check_writable(const std::string& path);

/// Options whose values are read strictly (numbers.hpp); a bad value is a usage error that names option, value and rule.
CLI::Option* add_size(CLI::App& app, const std::string& names, std::int64_t& value, const std::string& help);
CLI::Option* add_sizes(CLI::App& app, const std::string& names, std::vector<std::int64_t>& values, const std::string& help);
CLI::Option* add_count(CLI::App& app, const std::string& names, std::int64_t& value, std::int64_t least, const std::string& help);
CLI::Option* add_counts(CLI::App& app, const std::string& names, std::vector<std::int32_t>& values, std::int32_t least,
                        const std::string& help);
CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, const std::string& help);
CLI::Option* add_percent(CLI::App& app, const std::string& names, double& value, const std::string& help);
/// A comma-separated list of words.
CLI::Option* add_words(CLI::App& app, const std::string& names, std::vector<std::string>& values, const std::string& help);

// The commands.
Run add_calibrate(CLI::App& app);
Run add_allreduce_test(CLI::App& app);
Run add_export(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_fidelity(CLI::App& app);
Run add_verify(CLI::App& app);

}  // namespace gift::cli
