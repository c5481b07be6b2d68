// Reading dumps for calibration: gradients as they are, or activations, from which the gradient follows as
// output_grad^T input where a dump holds both.
#include "calibrate_sample.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "gift/plan.hpp"
#include "plan_internal.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr std::string_view input_tail = ".input", grad_tail = ".output_grad", weight_tail = ".weight";

bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() > tail.size() && text.substr(text.size() - tail.size()) == tail;
}

bool is_activation(std::string_view name) { return ends_with(name, input_tail) || ends_with(name, grad_tail); }

std::string module_of(const std::string& weight) { return weight.substr(0, weight.size() - weight_tail.size()); }

bool readable(const TensorInfo& info) {
  return info.dtype == "F32" || info.dtype == "BF16" || info.dtype == "F16" || info.dtype == "F64";
}

/// Values of a tensor, or nothing and a warning that says why they cannot be used.
Result<std::optional<std::vector<float>>> read_values(const SafetensorsFile& file, const TensorInfo& info,
                                                      std::vector<std::string>& warnings) {
  const auto skip = [&](const std::string& why) {
    warnings.push_back(printable(file.path()) + ": tensor " + in_quotes(info.name) + " " + why + "; left out");
    return std::optional<std::vector<float>>();
  };
  if (!readable(info)) return skip("is " + info.dtype + ", not F32, BF16, F16 or F64");
  if (info.elements == 0) return skip("is empty");
  Result<std::vector<float>> values = file.read_f32(info.name);
  if (!values.ok()) return values.status();
  const auto bad = std::find_if(values->begin(), values->end(), [](float v) { return !std::isfinite(v); });
  if (bad != values->end()) {
    return skip(std::string("holds ") + (std::isnan(*bad) ? "NaN" : "Inf") + " at index " +
                std::to_string(bad - values->begin()));
  }
  return std::optional<std::vector<float>>(*std::move(values));
}

std::vector<float> transposed(const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<float> y(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) y[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * cols + j)];
  }
  return y;
}

Result<std::optional<LayerSample>> read_gradient(const SafetensorsFile& file, const std::string& layer,
                                                 std::vector<std::string>& warnings) {
  const TensorInfo* info = file.find(layer);
  if (info == nullptr) return std::optional<LayerSample>();
  const Result<MatrixView> view = matrix_view(info->shape, MatrixRule::automatic);
  if (!view.ok()) return view.status().at(printable(file.path()) + ": tensor " + in_quotes(layer));
  auto values = read_values(file, *info, warnings);
  if (!values.ok()) return values.status();
  if (!values->has_value()) return std::optional<LayerSample>();
  LayerSample sample;
  sample.shape = info->shape;
  sample.rows = view->rows;
  sample.cols = view->cols;
  sample.gradient = **std::move(values);
  sample.right = sample.gradient;
  sample.right_samples = sample.rows;
  sample.left = transposed(sample.gradient, sample.rows, sample.cols);
  sample.left_samples = sample.cols;
  return std::optional<LayerSample>(std::move(sample));
}

/// Reads NAME.input or NAME.output_grad as samples x dim. Leading extents (batch, sequence) are all samples.
Status read_activation(const SafetensorsFile& file, const std::string& name, std::vector<std::string>& warnings,
                       std::vector<float>& values, std::int64_t& samples, std::int64_t& dim) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) return Status();
  if (info->shape.size() < 2) {
    warnings.push_back(printable(file.path()) + ": tensor " + in_quotes(name) + " has shape " + shape_text(info->shape) +
                       ", [tokens, features] is due; left out");
    return Status();
  }
  auto read = read_values(file, *info, warnings);
  if (!read.ok()) return read.status();
  if (!read->has_value()) return Status();
  values = **std::move(read);
  dim = info->shape.back();
  samples = info->elements / dim;
  return Status();
}

/// output_grad^T input, summed over tokens in FP64.
std::vector<float> gradient_of(const LayerSample& s) {
  std::vector<double> sum(static_cast<std::size_t>(s.rows * s.cols), 0.0);
  for (std::int64_t t = 0; t < s.right_samples; ++t) {
    const float* a = s.right.data() + t * s.cols;
    const float* d = s.left.data() + t * s.rows;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      double* row = sum.data() + i * s.cols;
      for (std::int64_t j = 0; j < s.cols; ++j) row[j] += static_cast<double>(d[i]) * static_cast<double>(a[j]);
    }
  }
  return {sum.begin(), sum.end()};
}

Result<std::optional<LayerSample>> read_activations(const SafetensorsFile& file, const std::string& layer,
                                                    std::vector<std::string>& warnings) {
  LayerSample s;
  const std::string module = module_of(layer);
  if (Status status = read_activation(file, module + std::string(input_tail), warnings, s.right, s.right_samples, s.cols);
      !status.ok())
    return status;
  if (Status status = read_activation(file, module + std::string(grad_tail), warnings, s.left, s.left_samples, s.rows);
      !status.ok())
    return status;
  if (s.right.empty() && s.left.empty()) return std::optional<LayerSample>();
  if (!s.right.empty() && !s.left.empty()) {
    if (s.right_samples != s.left_samples) {
      return Status(Code::bad_file, printable(file.path()) + ": " + in_quotes(module) + " has " +
                                        std::to_string(s.right_samples) + " input samples and " + std::to_string(s.left_samples) +
                                        " of output_grad");
    }
    s.gradient = gradient_of(s);
  }
  s.shape = {s.rows, s.cols};
  return std::optional<LayerSample>(std::move(s));
}

Status add_side(const LinAlg& linalg, const std::vector<float>& x, std::int64_t samples, std::int64_t dim, std::int64_t limit,
                FactorStats& stats) {
  if (samples == 0) return Status();
  stats.dim = dim;
  stats.samples += samples;
  if (dim > limit) {
    stats.skipped = "dimension " + std::to_string(dim) + " is over the limit of exact factors, " + std::to_string(limit);
    return Status();
  }
  if (stats.gram.empty()) stats.gram.assign(static_cast<std::size_t>(dim * dim), 0.0);
  return linalg.add_gram(x.data(), samples, dim, stats.gram.data());
}

}  // namespace

std::vector<std::string> layer_names(const SafetensorsFile& file, FactorSource source) {
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) {
    if (source == FactorSource::gradients) {
      const Result<MatrixView> view = matrix_view(info.shape, MatrixRule::automatic);
      if (is_activation(info.name) || info.shape.size() < 2 || !view.ok() || view->rows < 2 || view->cols < 2) continue;
      names.push_back(info.name);
    } else if (is_activation(info.name)) {
      const std::string_view tail = ends_with(info.name, input_tail) ? input_tail : grad_tail;
      names.push_back(info.name.substr(0, info.name.size() - tail.size()) + std::string(weight_tail));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<std::optional<LayerSample>> read_sample(const SafetensorsFile& file, const std::string& layer, FactorSource source,
                                               std::vector<std::string>& warnings) {
  return source == FactorSource::gradients ? read_gradient(file, layer, warnings) : read_activations(file, layer, warnings);
}

Status add_sample(const LinAlg& linalg, const LayerSample& sample, std::int64_t exact_limit, const std::string& origin,
                  LayerStats& stats) {
  const auto clash = [&](std::int64_t before, std::int64_t now) { return before != 0 && now != 0 && before != now; };
  if (clash(stats.rows, sample.rows) || clash(stats.cols, sample.cols)) {
    return Status(Code::bad_file, printable(origin) + ": layer " + in_quotes(stats.name) + " is " + shape_text(sample.shape) +
                                      ", the files before had " + shape_text(stats.shape));
  }
  stats.rows = std::max(stats.rows, sample.rows);
  stats.cols = std::max(stats.cols, sample.cols);
  stats.shape = stats.gradients == 0 || sample.shape.size() != 2 ? sample.shape : std::vector{stats.rows, stats.cols};
  ++stats.gradients;
  if (Status s = add_side(linalg, sample.right, sample.right_samples, sample.cols, exact_limit, stats.right); !s.ok()) return s;
  return add_side(linalg, sample.left, sample.left_samples, sample.rows, exact_limit, stats.left);
}

std::int64_t step_of(const SafetensorsFile& file) {
  const auto it = file.metadata().find("step");
  if (it == file.metadata().end()) return -1;
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(it->second.data(), it->second.data() + it->second.size(), step);
  return error == std::errc() && end == it->second.data() + it->second.size() && step >= 0 ? step : -1;
}

Status no_layers(const std::vector<std::string>& files, FactorSource source, const std::string& pattern,
                 const std::vector<std::string>& warnings) {
  const std::string where =
      files.size() == 1 ? printable(files[0]) : printable(files[0]) + " and " + std::to_string(files.size() - 1) + " more files";
  const std::string what = source == FactorSource::gradients ? "matrix of gradients" : "tensor NAME.input or NAME.output_grad";
  std::string why = where + ": no usable " + what;
  if (pattern != "*") why += " of a layer that matches " + in_quotes(pattern);
  if (!warnings.empty()) return Status(Code::invalid_argument, why + "; " + warnings.front());
  for (const std::string& path : files) {
    const Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (!file.ok()) continue;
    const FactorSource other = source == FactorSource::gradients ? FactorSource::activations : FactorSource::gradients;
    if (!layer_names(*file, other).empty()) {
      return Status(Code::invalid_argument, why + "; they hold " + source_name(other) + ": is that the source?");
    }
    for (const TensorInfo& info : file->tensors()) {
      return Status(Code::invalid_argument, why + "; the first tensor is " + in_quotes(info.name) + " " + shape_text(info.shape));
    }
  }
  return Status(Code::invalid_argument, why + "; they hold no tensors");
}

}  // namespace gift
