// From argv to an exit code: the behaviour that all commands share.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cli.hpp"
#include "gift/version.hpp"

namespace gift::cli {
namespace {

struct Common {
  std::string json_path;
  bool quiet = false;
};

struct Entry {
  CLI::App* app = nullptr;
  Run run;
};

std::string version_text() {
  std::string text = "gift " + std::string(version());
  for (const auto& fact : build_facts()) text += "\n" + fact;
  return text;
}

void add_common(CLI::App& app, Common& common) {
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", version_text, "print the version and what was built in, and exit");
  app.add_option("--json", common.json_path, "also write the result to FILE as one JSON object")->type_name("FILE");
  app.add_flag("--quiet", common.quiet, "print nothing but errors and warnings");
}

/// The value of --json in a command line that did not parse: a script that reads the report finds the error there.
std::string find_json_path(int argc, char** argv) {
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--json") == 0 && k + 1 < argc) return argv[k + 1];
    if (std::strncmp(argv[k], "--json=", 7) == 0) return argv[k] + 7;
  }
  return "";
}

int write_report(Context& context, int code) {
  const Status status = context.save_report();
  if (status.ok()) return code;
  context.fail(status);
  return code == exit_ok ? exit_failed : code;
}

/// Output that did not reach the disk or the pipe is an error, not a success.
int check_stdout(Context& context, int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  context.fail({Code::io, "standard output: cannot write"});
  return code == exit_ok ? exit_failed : code;
}

int run_command(const std::string& name, const Run& run, const Common& common) {
  Context context(name, common.quiet);
  if (const Status status = check_writable(common.json_path); !status.ok()) return context.fail(status);
  context.set_report_path(common.json_path);
  int code = exit_failed;
  try {
    code = run(context);
  } catch (const std::bad_alloc&) {
    code = context.fail({Code::out_of_memory, "out of memory"});
  } catch (const std::exception& error) {
    code = context.fail({Code::internal, std::string("internal error: ") + error.what()});
  }
  return check_stdout(context, write_report(context, code));
}

int explain(const CLI::ParseError& error, const CLI::App& app, const CLI::App* command, const char* first_argument,
            const std::string& json_path) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const std::string name = command ? command->get_name() : "";
  std::string what = one_line(error.what());
  if (!command && !first_argument) what = "a command is required";
  if (!command && first_argument) what = "'" + std::string(first_argument) + "' is not a command or option";
  const std::string message = what + " (see gift " + (command ? name + " " : "") + "--help)";
  std::fprintf(stderr, "gift%s: %s\n", command ? (" " + name).c_str() : "", message.c_str());
  if (!json_path.empty() && check_writable(json_path).ok()) {
    JsonReport report(name);
    report.set_error(message);
    if (const Status status = report.write(json_path); !status.ok()) {
      std::fprintf(stderr, "gift: %s\n", status.message().c_str());
    }
  }
  return exit_usage;
}

}  // namespace

Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return {Code::io, path + ": is a directory, not a file to write"};
  const auto folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return {};
  return {Code::io, path + ": cannot write there: " + std::strerror(errno)};
}

int run_gift(int argc, char** argv, const std::vector<Command>& commands) {
  CLI::App app("Compressed gradient collectives in the coordinates of the gradient", "gift");
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", version_text, "print the version and what was built in, and exit");
  app.get_formatter()->column_width(30);
  app.require_subcommand(1);
  app.footer("Every command has --help. Exit codes: 0 done, 1 a check failed or an error, 2 usage, 3 no such device.");
  Common common;
  std::vector<Entry> entries;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    add_common(*sub, common);
    entries.push_back({sub, command.add(*sub)});
  }
  const auto chosen = [&]() -> const Entry* {
    for (const auto& entry : entries) {
      if (entry.app->count() > 0) return &entry;
    }
    return nullptr;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const Entry* entry = chosen();
    return explain(error, app, entry ? entry->app : nullptr, argc > 1 ? argv[1] : nullptr, find_json_path(argc, argv));
  }
  const Entry* entry = chosen();
  return run_command(entry->app->get_name(), entry->run, common);
}

}  // namespace gift::cli
