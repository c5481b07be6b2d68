// From what a user types (patterns, directories, files) to a sorted list of files without repeats.
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "gift/safetensors.hpp"
#include "text.hpp"

namespace gift {
namespace {

using Paths = std::vector<std::string>;

/// The *.safetensors of a directory itself, not of directories below it; hidden files are left out as a shell would.
Status add_directory(const std::string& directory, Paths& out) {
  std::error_code error;
  const std::size_t before = out.size();
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::filesystem::path& path = it->path();
    if (path.extension() == ".safetensors" && path.filename().string().front() != '.') out.push_back(path.string());
  }
  if (error) return Status(Code::io, printable(directory) + ": cannot list it: " + error.message());
  if (out.size() == before) return Status(Code::io, printable(directory) + ": this directory holds no *.safetensors");
  return {};
}

Status add_path(const std::string& path, Paths& out) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return add_directory(path, out);
  out.push_back(path);
  return {};
}

/// A name that exists is taken literally, so that files with brackets in their names can be given.
Status add_pattern(const std::string& pattern, Paths& out) {
  if (pattern.empty() || pattern.find('\0') != std::string::npos) {
    return Status(Code::invalid_argument, in_quotes(pattern) + ": not a file name or pattern");
  }
  struct stat info {};
  if (::stat(pattern.c_str(), &info) == 0) return add_path(pattern, out);
  if (pattern.find_first_of("*?[") == std::string::npos) return Status(Code::io, printable(pattern) + ": no such file");

  glob_t found{};
  const int rc = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  const Paths matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (rc == GLOB_NOSPACE) return Status(Code::out_of_memory, printable(pattern) + ": too many matches");
  if (rc == GLOB_ABORTED) return Status(Code::io, printable(pattern) + ": a directory on its way cannot be read");
  if (matches.empty()) return Status(Code::io, printable(pattern) + ": no file matches this pattern");
  for (const std::string& match : matches) {
    if (Status status = add_path(match, out); !status.ok()) return status;
  }
  return {};
}

/// Two names of one file would count its data twice: the first in order stays.
void drop_repeats(Paths& paths) {
  std::set<std::pair<dev_t, ino_t>> seen;
  const auto repeated = [&seen](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && !seen.insert({info.st_dev, info.st_ino}).second;
  };
  Paths kept;
  for (std::string& path : paths) {
    if (!repeated(path)) kept.push_back(std::move(path));
  }
  paths = std::move(kept);
}

}  // namespace

Result<std::vector<std::string>> expand_paths(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return Status(Code::invalid_argument, "no files were given");
  Paths paths;
  for (const std::string& pattern : patterns) {
    if (Status status = add_pattern(pattern, paths); !status.ok()) return status;
  }
  std::sort(paths.begin(), paths.end());
  drop_repeats(paths);
  return paths;
}

}  // namespace gift
