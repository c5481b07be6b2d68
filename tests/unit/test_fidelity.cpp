// fidelity() on small files made here: what is refused, what is left out, and how `overall` comes about.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "catch.hpp"
#include "gift/fidelity.hpp"
#include "gift/safetensors.hpp"

using namespace gift;

namespace {

/// A folder that goes away with its files.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("gift-fidelity-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

/// rows x cols: a few strong directions, the same for every seed, and noise of its own for every seed.
TensorOut matrix(const std::string& name, std::int64_t rows, std::int64_t cols, int seed) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  std::uint32_t state = 12345u + static_cast<std::uint32_t>(seed);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      state = state * 1664525u + 1013904223u;
      const double noise = static_cast<double>(state >> 8) / (1 << 24) - 0.5;
      const double strong = std::sin(0.37 * static_cast<double>(i + seed)) * std::cos(0.21 * static_cast<double>(j)) +
                            std::cos(0.11 * static_cast<double>(i * (seed + 1))) * std::sin(0.05 * static_cast<double>(j));
      values[static_cast<std::size_t>(i * cols + j)] = static_cast<float>(strong + 0.02 * noise);
    }
  }
  TensorOut tensor{name, "F32", {rows, cols}, std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

void spoil(TensorOut& tensor, std::size_t index) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensor.bytes.data() + index * sizeof nan, &nan, sizeof nan);
}

const FidelityRow* find(const FidelityResult& result, const std::string& layer, const std::string& coordinates,
                        const std::string& format) {
  for (const auto& row : result.rows) {
    if (row.layer == layer && row.coordinates == coordinates && row.format == format) return &row;
  }
  return nullptr;
}

bool warned(const FidelityResult& result, const std::string& words) {
  return std::any_of(result.warnings.begin(), result.warnings.end(),
                     [&](const auto& warning) { return warning.find(words) != std::string::npos; });
}

FidelityOptions options_for(const Folder& folder) {
  FidelityOptions options;
  options.calibrate_files = {folder.file("old.safetensors")};
  options.test_files = {folder.file("new.safetensors")};
  options.formats = {*parse_format("e4m3:tensor"), *parse_format("nvfp4"), *parse_format("bf16")};
  options.methods = {*parse_method("euclidean"), *parse_method("deflate:rank=4")};
  return options;
}

}  // namespace

TEST_CASE("fidelity compares methods and formats, layer by layer and overall", "[fidelity]") {
  const Folder folder;
  REQUIRE(
      write_safetensors(folder.file("old.safetensors"), {matrix("a.weight", 64, 96, 1), matrix("b.weight", 96, 64, 2)}, {}).ok());
  REQUIRE(write_safetensors(folder.file("new.safetensors"),
                            {matrix("a.weight", 64, 96, 3), matrix("b.weight", 96, 64, 4), matrix("tiny.weight", 8, 8, 5)}, {})
              .ok());
  std::int64_t calls = 0, last_done = -1, last_total = 0;
  const auto result = fidelity(options_for(folder), [&](std::int64_t done, std::int64_t total, const std::string&) {
    ++calls;
    CHECK(done >= last_done);
    last_done = done;
    last_total = total;
  });
  REQUIRE(result.ok());
  CHECK(calls > 1);
  CHECK(last_done == last_total);
  CHECK(warned(*result, "1 tensors that are vectors or under 4096"));
  CHECK(result->rows.size() == 3 * (3 + 2));  // two layers and overall; bf16 in euclidean coordinates only
  CHECK(find(*result, "tiny.weight", "euclidean", "bf16") == nullptr);

  const auto* a = find(*result, "a.weight", "euclidean", "e4m3:tensor");
  const auto* b = find(*result, "b.weight", "euclidean", "e4m3:tensor");
  const auto* overall = find(*result, "overall", "euclidean", "e4m3:tensor");
  REQUIRE((a && b && overall));
  CHECK(overall->metrics.rel_l2 == Approx(std::sqrt(a->metrics.rel_l2 * b->metrics.rel_l2)));
  CHECK(overall->metrics.max_err == std::max(a->metrics.max_err, b->metrics.max_err));
  CHECK(overall->file.empty());
  CHECK(a->file == folder.file("new.safetensors"));
  CHECK(a->metrics.rel_l2 > 0.005);
  CHECK(a->metrics.rel_l2 < 0.05);
  // 6144 codes, one FP32 scale padded to 16 bytes
  CHECK(a->bits_per_element == Approx(8.0 * (6144 + 16) / 6144));

  // Deflation takes the strong directions out: far less error, for 16 r/n bits more (both parts start at multiples of 16 bytes).
  const auto* deflated = find(*result, "a.weight", "deflate", "e4m3:tensor");
  REQUIRE(deflated);
  CHECK(deflated->rank == 4);
  CHECK(deflated->basis == "gradients");
  CHECK(deflated->side == "right");
  CHECK(deflated->metrics.rel_l2 < 0.2 * a->metrics.rel_l2);
  CHECK(deflated->bits_per_element == Approx(a->bits_per_element + 16.0 * 4 / 96));
}

TEST_CASE("fidelity refuses what would not be a test", "[fidelity]") {
  const Folder folder;
  REQUIRE(write_safetensors(folder.file("old.safetensors"), {matrix("a.weight", 64, 96, 1)}, {}).ok());
  std::filesystem::create_hard_link(folder.file("old.safetensors"), folder.file("new.safetensors"));
  auto result = fidelity(options_for(folder), nullptr);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().message().find("is a calibration file too") != std::string::npos);

  auto options = options_for(folder);
  options.calibrate_files.clear();
  result = fidelity(options, nullptr);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().message().find("no calibration file holds gradients") != std::string::npos);

  options.methods.clear();  // by default only what needs no calibration is left, and that is said
  result = fidelity(options, nullptr);
  REQUIRE(result.ok());
  CHECK(find(*result, "overall", "hadamard 32", "nvfp4") == nullptr);
  CHECK(find(*result, "a.weight", "hadamard 32", "nvfp4") != nullptr);  // 64 does not divide 96
  CHECK(warned(*result, "no calibration file holds activations"));

  options.test_files.clear();
  CHECK(fidelity(options, nullptr).status().code() == Code::invalid_argument);
}

TEST_CASE("fidelity leaves out what it cannot compare, and says so", "[fidelity]") {
  const Folder folder;
  auto spoilt = matrix("c.weight", 64, 96, 6);
  spoil(spoilt, 77);
  REQUIRE(
      write_safetensors(folder.file("old.safetensors"), {matrix("a.weight", 64, 96, 1), matrix("c.weight", 64, 96, 2)}, {}).ok());
  REQUIRE(write_safetensors(folder.file("new.safetensors"),
                            {matrix("a.weight", 64, 96, 3), matrix("b.weight", 96, 64, 4), spoilt}, {})
              .ok());
  const auto result = fidelity(options_for(folder), nullptr);
  REQUIRE(result.ok());
  CHECK(warned(*result, "element 77 is NaN"));
  CHECK(warned(*result, "b.weight: deflate r 4"));
  CHECK(result->overall_matrices == 1);
  CHECK(warned(*result, "2 of 3 matrices lack a row of some method"));
  const auto* a = find(*result, "a.weight", "euclidean", "nvfp4");
  const auto* b = find(*result, "b.weight", "euclidean", "nvfp4");
  const auto* overall = find(*result, "overall", "euclidean", "nvfp4");
  REQUIRE((a && b && overall));
  CHECK(overall->metrics.rel_l2 == Approx(a->metrics.rel_l2));  // b has no deflated row, so it is in no method's mean
}

TEST_CASE("a method without any basis does not empty the comparison of the others", "[fidelity]") {
  const Folder folder;
  REQUIRE(write_safetensors(folder.file("old.safetensors"), {matrix("other.weight", 64, 96, 1)}, {}).ok());
  REQUIRE(
      write_safetensors(folder.file("new.safetensors"), {matrix("a.weight", 64, 96, 3), matrix("b.weight", 96, 64, 4)}, {}).ok());
  const auto result = fidelity(options_for(folder), nullptr);
  REQUIRE(result.ok());
  CHECK(find(*result, "overall", "euclidean", "nvfp4") != nullptr);
  CHECK(find(*result, "overall", "deflate", "nvfp4") == nullptr);
  CHECK(warned(*result, "b.weight: deflate r 4"));
}
