// Dumps to ranks: by what the file says about itself, then by its name, then by its place.
#include "rank_files.hpp"

#include <fnmatch.h>

#include <cctype>
#include <map>

#include "gift/safetensors.hpp"

namespace gift::cli {
namespace {

/// Digits of `text` as a rank; -1 if it is anything else.
int to_rank(const std::string& text) {
  if (text.empty() || text.size() > 6) return -1;
  int rank = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    rank = rank * 10 + (c - '0');
  }
  return rank;
}

/// The number after the last "rank" in a file's name; -1 if there is none.
int rank_in_name(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  const std::size_t at = name.rfind("rank");
  if (at == std::string::npos) return -1;
  std::size_t end = at + 4;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
  return to_rank(name.substr(at + 4, end - at - 4));
}

int rank_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find("rank");
  const int said = found == file.metadata().end() ? -1 : to_rank(found->second);
  return said >= 0 ? said : rank_in_name(file.path());
}

}  // namespace

Result<RankGradients> load_rank(const std::vector<std::string>& patterns, int rank, const std::string& layers) {
  const Result<std::vector<std::string>> paths = expand_paths(patterns);
  if (!paths.ok()) return paths.status();
  std::vector<SafetensorsFile> mine;
  bool any_says = false;
  for (const std::string& path : *paths) {
    Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (!file.ok()) return file.status();
    const int said = rank_of(file.value());
    any_says = any_says || said >= 0;
    if (said == rank) mine.push_back(std::move(file).value());
  }
  if (!any_says && rank < static_cast<int>(paths->size())) {
    Result<SafetensorsFile> file = SafetensorsFile::open((*paths)[static_cast<std::size_t>(rank)]);
    if (!file.ok()) return file.status();
    mine.push_back(std::move(file).value());
  }
  if (mine.empty())
    return Status(Code::invalid_argument,
                  "no gradients for rank " + std::to_string(rank) + " among " + std::to_string(paths->size()) + " files");
  std::map<std::string, std::pair<const SafetensorsFile*, const TensorInfo*>> tensors;
  RankGradients out;
  for (const SafetensorsFile& file : mine) {
    out.files.push_back(file.path());
    for (const TensorInfo& info : file.tensors()) {
      if (!layers.empty() && fnmatch(layers.c_str(), info.name.c_str(), 0) != 0) continue;
      const auto [at, fresh] = tensors.emplace(info.name, std::pair(&file, &info));
      if (!fresh)
        return Status(Code::invalid_argument,
                      "tensor '" + info.name + "' is in " + at->second.first->path() + " and in " + file.path());
    }
  }
  if (tensors.empty()) return Status(Code::invalid_argument, out.files[0] + ": no tensor matches '" + layers + "'");
  for (const auto& [name, where] : tensors) {
    Result<std::vector<float>> values = where.first->read_f32(name);
    if (!values.ok()) return values.status();
    out.tensors.push_back({name, where.second->shape, Dtype::f32});
    out.values.push_back(std::move(values).value());
  }
  return out;
}

}  // namespace gift::cli
