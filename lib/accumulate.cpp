// Accumulator: second moments of all layers of a set of dumps, file by file.
#include <algorithm>

#include "calibrate_sample.hpp"
#include "text.hpp"

namespace gift {

const char* source_name(FactorSource source) noexcept {
  return source == FactorSource::activations ? "activations" : "gradients";
}

struct Accumulator::Body {
  FactorSource source;
  std::string backend_name;
  std::int64_t exact_limit;
  std::shared_ptr<const Backend> backend;
  std::vector<LayerStats> layers;
  std::vector<std::string> warnings;
  std::int64_t step = -1;

  LayerStats& layer(const std::string& name) {
    const auto it = std::lower_bound(layers.begin(), layers.end(), name,
                                     [](const LayerStats& stats, const std::string& wanted) { return stats.name < wanted; });
    if (it != layers.end() && it->name == name) return *it;
    LayerStats fresh;
    fresh.name = name;
    return *layers.insert(it, std::move(fresh));
  }
};

Accumulator::Accumulator(FactorSource source, const std::string& backend, std::int64_t exact_limit)
    : body_(std::make_unique<Body>(Body{source, backend, exact_limit, nullptr, {}, {}, -1})) {}
Accumulator::~Accumulator() = default;
Accumulator::Accumulator(Accumulator&&) noexcept = default;

Status Accumulator::add_file(const std::string& path) {
  if (!body_->backend) {
    Result<std::shared_ptr<const Backend>> opened = open_backend(body_->backend_name);
    if (!opened.ok()) return opened.status();
    body_->backend = *opened;
  }
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  const std::vector<std::string> names = layer_names(*file, body_->source);
  if (names.empty()) body_->warnings.push_back(printable(path) + ": holds no " + source_name(body_->source) + "; left out");
  for (const std::string& name : names) {
    const Result<std::optional<LayerSample>> sample = read_sample(*file, name, body_->source, body_->warnings);
    if (!sample.ok()) return sample.status();
    if (!sample->has_value()) continue;
    const Status s = add_sample(body_->backend->linalg(), **sample, body_->exact_limit, path, body_->layer(name));
    if (!s.ok()) return s;
  }
  body_->step = std::max(body_->step, step_of(*file));
  return Status();
}

const std::vector<LayerStats>& Accumulator::layers() const { return body_->layers; }
const std::vector<std::string>& Accumulator::warnings() const { return body_->warnings; }
std::int64_t Accumulator::newest_step() const { return body_->step; }

}  // namespace gift
