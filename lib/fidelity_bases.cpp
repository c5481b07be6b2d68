// Making the bases of `fidelity`.
#include "fidelity_bases.hpp"

#include <algorithm>

#include "backend.hpp"
#include "gift/plan.hpp"
#include "gift/safetensors.hpp"

namespace gift {
namespace {

bool ends_with(const std::string& text, std::string_view tail) {
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

FactorSource source_of(BasisOrigin origin) {
  return origin == BasisOrigin::activations ? FactorSource::activations : FactorSource::gradients;
}

/// One side's second moment of a single matrix X (samples x dim).
Status fill(FactorStats& stats, const LinAlg& linalg, const float* x, std::int64_t samples, std::int64_t dim,
            std::int64_t limit) {
  stats.dim = dim;
  stats.samples = samples;
  if (dim > limit) {
    stats.skipped = "dimension " + std::to_string(dim) + " is more than " + std::to_string(limit);
    return {};
  }
  stats.gram.assign(static_cast<std::size_t>(dim * dim), 0.0);
  return linalg.add_gram(x, samples, dim, stats.gram.data());
}

}  // namespace

bool is_activation(const std::string& tensor_name) {
  return ends_with(tensor_name, ".input") || ends_with(tensor_name, ".output_grad");
}

Status FidelityBases::add_file(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  const auto& tensors = file->tensors();
  const bool activations = std::any_of(tensors.begin(), tensors.end(), [](const auto& info) { return is_activation(info.name); });
  auto& target = activations ? activations_ : gradients_;
  if (!target) target.emplace(activations ? FactorSource::activations : FactorSource::gradients, backend_, exact_limit_);
  return target->add_file(path);
}

bool FidelityBases::has(BasisOrigin origin) const noexcept {
  switch (origin) {
    case BasisOrigin::gradients:
      return gradients_.has_value();
    case BasisOrigin::activations:
      return activations_.has_value();
    case BasisOrigin::none:
    case BasisOrigin::own:
      return true;
  }
  return false;
}

std::vector<std::string> FidelityBases::warnings() const {
  std::vector<std::string> all;
  for (const auto* accumulator : {&gradients_, &activations_}) {
    if (*accumulator) all.insert(all.end(), (*accumulator)->warnings().begin(), (*accumulator)->warnings().end());
  }
  return all;
}

Result<LayerBasisPtr> FidelityBases::get(const std::string& name, const std::vector<std::int64_t>& shape, const Method& method,
                                         const std::vector<float>& values) {
  if (method.origin == BasisOrigin::own) return make_own(name, shape, method, values);
  const auto key = std::pair(name, method_label(method.geometry, method.origin));
  auto known = made_.find(key);
  if (known == made_.end()) known = made_.emplace(key, make(name, method)).first;
  return known->second;
}

Result<LayerBasisPtr> FidelityBases::make(const std::string& name, const Method& method) const {
  const auto& accumulator = method.origin == BasisOrigin::activations ? activations_ : gradients_;
  if (accumulator) {
    const auto& layers = accumulator->layers();
    const auto found = std::find_if(layers.begin(), layers.end(), [&](const auto& stats) { return stats.name == name; });
    if (found != layers.end()) return make_basis(*found, method.geometry, source_of(method.origin), backend_);
  }
  return Status(Code::invalid_argument, std::string("the calibration files hold no ") + origin_name(method.origin) + " for it");
}

Result<LayerBasisPtr> FidelityBases::make_own(const std::string& name, const std::vector<std::int64_t>& shape,
                                              const Method& method, const std::vector<float>& values) const {
  const auto view = matrix_view(shape, MatrixRule::automatic);
  if (!view.ok()) return view.status();
  const auto backend = open_backend(backend_);
  if (!backend.ok()) return backend.status();
  const LinAlg& linalg = (*backend)->linalg();
  LayerStats stats;
  stats.name = name;
  stats.shape = shape;
  stats.rows = view->rows;
  stats.cols = view->cols;
  stats.gradients = 1;
  if (auto status = fill(stats.right, linalg, values.data(), view->rows, view->cols, exact_limit_); !status.ok()) return status;
  if (has_left(method.geometry.side)) {
    std::vector<float> transposed(values.size());
    for (std::int64_t i = 0; i < view->rows; ++i) {
      for (std::int64_t j = 0; j < view->cols; ++j) transposed[j * view->rows + i] = values[i * view->cols + j];
    }
    if (auto status = fill(stats.left, linalg, transposed.data(), view->cols, view->rows, exact_limit_); !status.ok())
      return status;
  }
  return make_basis(stats, method.geometry, FactorSource::gradients, backend_);
}

}  // namespace gift
