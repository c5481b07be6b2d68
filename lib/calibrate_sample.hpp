// What a dump says about a layer: the samples behind its factors. Private to calibration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend.hpp"
#include "gift/calibrate.hpp"
#include "gift/safetensors.hpp"

namespace gift {

/// One file's part of one layer. Matrices are row-major.
struct LayerSample {
  std::vector<std::int64_t> shape;  ///< of the weight
  std::int64_t rows = 0, cols = 0;  ///< of the weight; 0 where the dump does not say
  std::vector<float> right;         ///< right_samples x cols
  std::vector<float> left;          ///< left_samples x rows
  std::int64_t right_samples = 0, left_samples = 0;
  std::vector<float> gradient;  ///< rows x cols; empty where the dump has only one side's activations
};

/// Layers that a file has something about, as weight names, in order.
std::vector<std::string> layer_names(const SafetensorsFile& file, FactorSource source);

/// Reads a layer. Nothing and a line in `warnings` where its numbers cannot be used: NaN or Inf (file, tensor, index), no values,
/// another dtype. An error where the file cannot be read or contradicts itself.
Result<std::optional<LayerSample>> read_sample(const SafetensorsFile& file, const std::string& layer, FactorSource source,
                                               std::vector<std::string>& warnings);

/// Adds a sample to a layer's sums; sides beyond `exact_limit` get a reason instead. Shapes must agree (`origin` names the file).
Status add_sample(const LinAlg& linalg, const LayerSample& sample, std::int64_t exact_limit, const std::string& origin,
                  LayerStats& stats);

/// Training step in a file's metadata, -1 if it does not say.
std::int64_t step_of(const SafetensorsFile& file);

/// Why a set of files gave no layer at all.
Status no_layers(const std::vector<std::string>& files, FactorSource source, const std::string& pattern,
                 const std::vector<std::string>& warnings);

}  // namespace gift
