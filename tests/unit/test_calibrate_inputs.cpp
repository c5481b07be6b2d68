// Calibration on dumps of every awkward kind: NaN, zeros, dead columns, too few samples, wrong names and shapes, activations.
#include <algorithm>
#include <cmath>

#include "calibrate_kit.hpp"

using namespace gift;
using namespace gift::tests;

TEST_CASE("NaN and Inf are left out by file, tensor and index; the rest counts", "[calibrate]") {
  const Scratch scratch;
  auto files = four_files(scratch);
  Floats bad = gradient(64, 128, 6, 2);
  bad[4711] = INFINITY;
  write(files[2], {tensor("a.weight", {64, 128}, bad)});
  const auto result = calibrate(files, fixed_rank(8), nullptr);
  REQUIRE(result.ok());
  REQUIRE(result->warnings.size() == 1);
  CHECK(holds(result->warnings[0], "g2.safetensors: tensor 'a.weight' holds Inf at index 4711"));
  CHECK(result->layers[0].samples == 192);
  CHECK(holds(result->layers[0].note, "in 3 of 4 files"));
  bad[0] = NAN;
  for (const std::string& file : files) write(file, {tensor("a.weight", {64, 128}, bad)});
  const auto none = calibrate(files, fixed_rank(8), nullptr);
  CHECK(none.status().code() == Code::invalid_argument);
  CHECK(holds(none.status().message(), "holds NaN at index 0"));
}

TEST_CASE("zero gradients, dead columns, too few samples, tiny layers: named, and euclidean where nothing can be had",
          "[calibrate]") {
  const Scratch scratch;
  std::vector<std::string> files;
  for (std::uint32_t k = 0; k < 2; ++k) {
    Floats dead = gradient(64, 128, 3, k);
    for (std::size_t i = 0; i < 64; ++i) dead[i * 128 + 3] = 0.0f;
    files.push_back(scratch / ("z" + std::to_string(k) + ".safetensors"));
    write(files.back(),
          {tensor("dead.weight", {64, 128}, dead), tensor("few.weight", {4, 1024}, gradient(4, 1024, 2, k)),
           tensor("small.weight", {8, 8}, gradient(8, 8, 2, k)), tensor("zero.weight", {64, 64}, Floats(4096, 0.0f)),
           tensor("norm.weight", {128}, Floats(128, 1.0f)), tensor("tok_embed.weight", {64, 128}, gradient(64, 128, 3, k))});
  }
  const auto result = calibrate(files, fixed_rank(6, Side::both), nullptr);
  REQUIRE(result.ok());
  REQUIRE(result->layers.size() == 5);  // the norm is no matrix
  const auto layer = [&](const std::string& name) {
    return *std::find_if(result->layers.begin(), result->layers.end(), [&](const LayerReport& l) { return l.name == name; });
  };
  CHECK(holds(layer("dead.weight").note, "1 of 128 columns always zero"));
  CHECK(layer("dead.weight").chosen.geometry.kind == GeometryKind::deflate);
  CHECK(holds(layer("few.weight").note, "right: 8 samples for dimension 1024"));
  CHECK(layer("few.weight").chosen.geometry.rank <= 4);  // min(m, n)
  CHECK(holds(layer("zero.weight").note, "all gradients are zero"));
  CHECK(layer("zero.weight").chosen.geometry.kind == GeometryKind::euclidean);
  CHECK(layer("zero.weight").measured == 0.0);
  CHECK(holds(layer("small.weight").note, "exempt: 64 elements"));
  CHECK(layer("tok_embed.weight").chosen.geometry.kind == GeometryKind::euclidean);  // never the left side
  check_planned(*result, {{"dead.weight", {64, 128}, Dtype::f32},
                          {"few.weight", {4, 1024}, Dtype::f32},
                          {"small.weight", {8, 8}, Dtype::f32},
                          {"zero.weight", {64, 64}, Dtype::f32},
                          {"tok_embed.weight", {64, 128}, Dtype::f32}});
  // One sample: whatever is asked, no more than rank 1 is there.
  write(scratch / "one.safetensors",
        {tensor("a.weight", {1, 8192}, gradient(1, 8192, 1, 1)), tensor("b.weight", {2, 4096}, gradient(2, 4096, 1, 1))});
  const auto one = calibrate({scratch / "one.safetensors"}, fixed_rank(6), nullptr);
  REQUIRE(one.ok());
  REQUIRE(one->layers.size() == 1);  // one row is a vector, not a matrix
  CHECK(holds(one->layers[0].note, "right: dimension 4096 is over the limit of exact factors, 2048"));
  CHECK(one->layers[0].chosen.geometry.kind == GeometryKind::euclidean);
}

TEST_CASE("inputs that cannot be calibrated on are refused with what they hold", "[calibrate]") {
  const Scratch scratch;
  write(scratch / "a.safetensors",
        {tensor("x.input", {16, 8}, gradient(16, 8, 2, 1)), tensor("x.output_grad", {16, 4}, gradient(16, 4, 2, 2))});
  write(scratch / "b.safetensors", {tensor("x.bias", {8}, Floats(8, 1.0f))});
  write(scratch / "e.safetensors", {});
  const auto message = [&](const std::vector<std::string>& files, FactorSource source) {
    CalibrateOptions options = fixed_rank(4);
    options.source = source;
    const auto result = calibrate(files, options, nullptr);
    CHECK_FALSE(result.ok());
    return result.status().message();
  };
  CHECK(holds(message({scratch / "a.safetensors"}, FactorSource::gradients), "they hold activations: is that the source?"));
  CHECK(holds(message({scratch / "b.safetensors"}, FactorSource::gradients), "the first tensor is 'x.bias' [8]"));
  CHECK(holds(message({scratch / "b.safetensors"}, FactorSource::activations), "no usable tensor NAME.input"));
  CHECK(holds(message({scratch / "e.safetensors"}, FactorSource::gradients), "they hold no tensors"));
  CHECK(holds(message({}, FactorSource::gradients), "no files"));
  CHECK(holds(message({scratch / "missing.safetensors"}, FactorSource::gradients), "missing.safetensors"));
  write(scratch / "s1.safetensors", {tensor("a.weight", {64, 128}, gradient(64, 128, 2, 1))});
  write(scratch / "s2.safetensors", {tensor("a.weight", {128, 64}, gradient(128, 64, 2, 1))});
  const std::string shapes = message({scratch / "s1.safetensors", scratch / "s2.safetensors"}, FactorSource::gradients);
  CHECK(holds(shapes, "s2.safetensors: layer 'a.weight' is [128, 64], the files before had [64, 128]"));
  CalibrateOptions fp32 = fixed_rank(4);
  fp32.format = *parse_format("fp32");
  CHECK(holds(calibrate({scratch / "s1.safetensors"}, fp32, nullptr).status().message(), "nothing to calibrate"));
  CalibrateOptions cuda = fixed_rank(4);
  cuda.backend = "no-such-backend";
  CHECK_FALSE(calibrate({scratch / "s1.safetensors"}, cuda, nullptr).ok());
}

TEST_CASE("activations: the gradient follows from both sides; one side alone is said to be too little", "[calibrate]") {
  const Scratch scratch;
  std::vector<std::string> files;
  for (std::uint32_t k = 0; k < 2; ++k) {
    files.push_back(scratch / ("act" + std::to_string(k) + ".safetensors"));
    // [batch, sequence, features]: the leading extents are samples.
    write(files.back(), {tensor("x.input", {2, 100, 128}, gradient(200, 128, 5, k)),
                         tensor("x.output_grad", {200, 64}, gradient(200, 64, 64, 50 + k)),
                         tensor("y.input", {200, 128}, gradient(200, 128, 5, k))});
  }
  CalibrateOptions options = fixed_rank(8);
  options.source = FactorSource::activations;
  const auto result = calibrate(files, options, nullptr);
  REQUIRE(result.ok());
  REQUIRE(result->layers.size() == 2);
  CHECK(result->layers[0].name == "x.weight");
  CHECK(result->layers[0].shape == std::vector<std::int64_t>{64, 128});
  CHECK(result->layers[0].samples == 400);
  CHECK(result->layers[0].chosen.energy_kept > 0.9);
  CHECK(result->layers[0].measured < 0.5 * result->layers[0].euclidean_rel_l2);
  CHECK(result->bases.layers.at("x.weight")->source == "activations");
  CHECK(holds(result->layers[1].note, "no output_grad"));
  CHECK(result->layers[1].chosen.geometry.kind == GeometryKind::euclidean);
  write(files[1],
        {tensor("x.input", {100, 128}, gradient(100, 128, 5, 1)), tensor("x.output_grad", {200, 64}, gradient(200, 64, 64, 3))});
  CHECK(holds(calibrate(files, options, nullptr).status().message(), "100 input samples and 200 of output_grad"));
}

TEST_CASE("accumulator and make_basis: sums over files, both sides, ranks clipped to what is there", "[calibrate]") {
  const Scratch scratch;
  const auto files = four_files(scratch);
  Accumulator accumulator(FactorSource::gradients, "cpu");
  for (const std::string& file : files) REQUIRE(accumulator.add_file(file).ok());
  REQUIRE(accumulator.layers().size() == 1);
  const LayerStats& stats = accumulator.layers()[0];
  CHECK(stats.gradients == 4);
  CHECK(stats.right.samples == 256);
  CHECK(stats.left.samples == 512);
  CHECK(accumulator.newest_step() == 7);
  double trace = 0, energy = 0;
  for (std::size_t i = 0; i < 64; ++i) trace += stats.left.gram[i * 65];
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (const float v : gradient(64, 128, 6, k)) energy += static_cast<double>(v) * static_cast<double>(v);
  }
  CHECK(trace == Approx(energy));
  GeometrySpec spec;
  spec.kind = GeometryKind::whiten;
  spec.side = Side::both;
  spec.rank = 500;
  const auto basis = make_basis(stats, spec, FactorSource::gradients, "cpu");
  REQUIRE(basis.ok());
  CHECK((*basis)->right.rank == 64);
  CHECK((*basis)->left.rank == 64);
  CHECK((*basis)->right.d.size() == 64);
  CHECK((*basis)->hash == (*make_basis(stats, spec, FactorSource::gradients, "cpu"))->hash);
  spec.kind = GeometryKind::hadamard;
  CHECK_FALSE(make_basis(stats, spec, FactorSource::gradients, "cpu").ok());
  LayerStats zero = stats;
  std::fill(zero.right.gram.begin(), zero.right.gram.end(), 0.0);
  spec = GeometrySpec{GeometryKind::deflate, Side::right, 4, 0.5, 1.0, 0};
  CHECK(make_basis(zero, spec, FactorSource::gradients, "cpu").status().code() == Code::numeric);
  zero.right.gram[5] = NAN;
  CHECK(holds(make_basis(zero, spec, FactorSource::gradients, "cpu").status().message(), "NaN at row 0, column 5"));
}
