// Dumps made up for tests of calibration.
#pragma once

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "gift/calibrate.hpp"
#include "gift/plan.hpp"
#include "gift/safetensors.hpp"
#include "scratch.hpp"

namespace gift::tests {

using Floats = std::vector<float>;

inline std::vector<std::byte> bytes_of(const Floats& values) {
  std::vector<std::byte> bytes;
  for (const float v : values) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(std::bit_cast<std::uint32_t>(v) >> (8 * i)));
  }
  return bytes;
}

inline TensorOut tensor(const std::string& name, std::vector<std::int64_t> shape, const Floats& values) {
  return {name, "F32", std::move(shape), bytes_of(values)};
}

/// rows x cols with the energy of `strong` fixed input directions, and noise.
inline Floats gradient(std::int64_t rows, std::int64_t cols, int strong, std::uint32_t seed, float scale = 1.0f) {
  std::mt19937 fixed(99), engine(seed);
  std::normal_distribution<float> normal;
  Floats directions(static_cast<std::size_t>(strong * cols)), w(static_cast<std::size_t>(rows * cols));
  for (float& v : directions) v = normal(fixed);
  for (std::int64_t i = 0; i < rows; ++i) {
    Floats mix(static_cast<std::size_t>(strong));
    for (float& v : mix) v = normal(engine);
    for (std::int64_t c = 0; c < cols; ++c) {
      float value = 0.1f * normal(engine);
      for (int k = 0; k < strong; ++k)
        value += mix[static_cast<std::size_t>(k)] * directions[static_cast<std::size_t>(k * cols + c)];
      w[static_cast<std::size_t>(i * cols + c)] = scale * value;
    }
  }
  return w;
}

inline void write(const std::string& path, const std::vector<TensorOut>& tensors, const std::string& step = "7") {
  REQUIRE(write_safetensors(path, tensors, {{"step", step}}).ok());
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline CalibrateOptions fixed_rank(std::int32_t rank, Side side = Side::right, GeometryKind kind = GeometryKind::deflate) {
  CalibrateOptions options;
  options.format = *parse_format("e4m3:tensor");
  options.rank = rank;
  GeometrySpec spec;
  spec.kind = kind;
  spec.side = side;
  options.candidates = {spec};
  return options;
}

/// Four files with one layer of 64 x 128.
inline std::vector<std::string> four_files(const Scratch& scratch, float scale = 1.0f) {
  std::vector<std::string> files;
  for (std::uint32_t k = 0; k < 4; ++k) {
    files.push_back(scratch / ("g" + std::to_string(k) + ".safetensors"));
    write(files.back(), {tensor("a.weight", {64, 128}, gradient(64, 128, 6, k, scale))});
  }
  return files;
}

/// What a plan makes of the result: the recipe's rules and the bases belong together.
inline void check_planned(const CalibrationResult& result, std::vector<TensorDesc> tensors) {
  const Result<Recipe> back = parse_recipe(to_toml(result.recipe), "test");
  INFO(back.status().message());
  REQUIRE(back.ok());
  const Result<Plan> plan = Plan::make(*back, tensors, 2, result.bases);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  for (const LayerReport& layer : result.layers) {
    const std::int64_t k = plan->find(layer.name);
    REQUIRE(k >= 0);
    CHECK(plan->tensors()[static_cast<std::size_t>(k)].geometry == layer.chosen.geometry);
  }
}

}  // namespace gift::tests
