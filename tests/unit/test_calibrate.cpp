// Calibration: predictions that must hold on files left out, equal results for equal inputs, choices within the budget.
#include <cmath>

#include "calibrate_choose.hpp"
#include "calibrate_kit.hpp"
#include "calibrate_predict.hpp"

using namespace gift;
using namespace gift::tests;

TEST_CASE("six strong directions are found, predicted and measured", "[calibrate]") {
  const Scratch scratch;
  const auto files = four_files(scratch);
  const auto result = calibrate(files, fixed_rank(8), nullptr);
  REQUIRE(result.ok());
  REQUIRE(result->layers.size() == 1);
  const LayerReport& layer = result->layers[0];
  CHECK(layer.samples == 256);
  CHECK_FALSE(layer.optimistic);
  CHECK(layer.chosen.geometry.kind == GeometryKind::deflate);
  CHECK(layer.chosen.energy_kept > 0.99);
  CHECK(layer.chosen.energy_kept < 1.0);
  CHECK(layer.measured < 0.15 * layer.euclidean_rel_l2);
  CHECK(layer.measured == Approx(layer.chosen.predicted_rel_l2).epsilon(0.1));
  CHECK(layer.euclidean_rel_l2 == Approx(0.0265).epsilon(0.05));
  CHECK(layer.chosen.geometry_bytes == 2.0 * 64 * 8);
  CHECK(layer.bits_per_element == Approx(8.0 + 8.0 * 1024 / 8192).epsilon(0.01));
  CHECK(result->bases.metadata.at("step") == "7");
  CHECK(result->bases.layers.at("a.weight")->right.rank == 8);
  CHECK(result->bases.layers.at("a.weight")->samples == 256);
  check_planned(*result, {{"a.weight", {64, 128}, Dtype::f32}});
}

TEST_CASE("equal inputs give equal bases, on the reference too, and scale does not matter", "[calibrate]") {
  const Scratch scratch;
  const auto files = four_files(scratch);
  const auto a = calibrate(files, fixed_rank(6), nullptr), b = calibrate(files, fixed_rank(6), nullptr);
  CalibrateOptions by_reference = fixed_rank(6);
  by_reference.backend = "ref";
  const auto c = calibrate(files, by_reference, nullptr);
  REQUIRE((a.ok() && b.ok() && c.ok()));
  CHECK(a->bases.hash() == b->bases.hash());
  CHECK(a->bases.hash() == c->bases.hash());
  CHECK(a->layers[0].measured == c->layers[0].measured);
  for (const float scale : {0x1p40f, 0x1p-40f}) {  // powers of two: the same digits
    const auto scaled = calibrate(four_files(scratch, scale), fixed_rank(6), nullptr);
    REQUIRE(scaled.ok());
    CHECK(scaled->bases.layers.at("a.weight")->right.u == a->bases.layers.at("a.weight")->right.u);
  }
  for (const float scale : {1e30f, 1e-30f}) {
    const auto scaled = calibrate(four_files(scratch, scale), fixed_rank(6), nullptr);
    REQUIRE(scaled.ok());
    CHECK(scaled->layers[0].chosen.energy_kept == Approx(a->layers[0].chosen.energy_kept).epsilon(1e-4));
  }
}

TEST_CASE("a single file is optimistic and says so; the held-out figure is worse", "[calibrate]") {
  const Scratch scratch;
  const auto files = four_files(scratch);
  const auto one = calibrate({files[0]}, fixed_rank(32), nullptr), all = calibrate(files, fixed_rank(32), nullptr);
  REQUIRE((one.ok() && all.ok()));
  CHECK(one->layers[0].optimistic);
  CHECK_FALSE(all->layers[0].optimistic);
  CHECK(one->layers[0].chosen.predicted_rel_l2 < all->layers[0].chosen.predicted_rel_l2);
}

TEST_CASE("the prediction's formula is the energy of a transformed gradient", "[calibrate]") {
  const Scratch scratch;
  const auto files = four_files(scratch);
  int checked = 0;
  for (const GeometryKind kind : {GeometryKind::deflate, GeometryKind::whiten}) {
    for (const Side side : {Side::right, Side::left, Side::both}) {
      const auto result = calibrate({files[0]}, fixed_rank(5, side, kind), nullptr);
      REQUIRE(result.ok());
      if (result->bases.layers.empty()) continue;  // it was predicted to be no better
      const LayerBasis& b = *result->bases.layers.at("a.weight");
      const Floats w = gradient(64, 128, 6, 0);
      std::vector<double> x(w.begin(), w.end());
      const auto d_of = [&](const SideBasis& s, std::int32_t j) {
        return kind == GeometryKind::whiten ? static_cast<double>(s.d[static_cast<std::size_t>(j)]) : 1.0;
      };
      // X <- (I - U D U^T) X (I - V D V^T), in FP64.
      if (has_right(side)) {
        for (std::size_t i = 0; i < 64; ++i) {
          const std::vector<double> row(x.begin() + static_cast<std::ptrdiff_t>(i * 128),
                                        x.begin() + static_cast<std::ptrdiff_t>(i * 128 + 128));
          for (std::int32_t j = 0; j < b.right.rank; ++j) {
            double s = 0;
            const auto u = [&](std::size_t k) {
              return static_cast<double>(b.right.u[k * static_cast<std::size_t>(b.right.rank) + static_cast<std::size_t>(j)]);
            };
            for (std::size_t k = 0; k < 128; ++k) s += row[k] * u(k);
            for (std::size_t k = 0; k < 128; ++k) x[i * 128 + k] -= d_of(b.right, j) * s * u(k);
          }
        }
      }
      if (has_left(side)) {
        for (std::size_t c = 0; c < 128; ++c) {
          std::vector<double> col(64);
          for (std::size_t i = 0; i < 64; ++i) col[i] = x[i * 128 + c];
          for (std::int32_t j = 0; j < b.left.rank; ++j) {
            double s = 0;
            const auto u = [&](std::size_t k) {
              return static_cast<double>(b.left.u[k * static_cast<std::size_t>(b.left.rank) + static_cast<std::size_t>(j)]);
            };
            for (std::size_t i = 0; i < 64; ++i) s += col[i] * u(i);
            for (std::size_t i = 0; i < 64; ++i) x[i * 128 + c] -= d_of(b.left, j) * s * u(i);
          }
        }
      }
      double before = 0, after = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        before += static_cast<double>(w[i]) * static_cast<double>(w[i]);
        after += x[i] * x[i];
      }
      const auto codec = Codec::open("cpu");
      FormatError c(*codec, *parse_format("e4m3:tensor"));
      double gain = 1;
      if (kind == GeometryKind::whiten) {
        for (const SideBasis* s : {&b.right, &b.left}) {
          if (s->rank == 0) continue;
          double sum = static_cast<double>(s->dim - s->rank);
          for (const float v : s->d_inv) sum += (1.0 + static_cast<double>(v)) * (1.0 + static_cast<double>(v));
          gain *= sum / static_cast<double>(s->dim);
        }
      }
      CHECK(result->layers[0].chosen.predicted_rel_l2 == Approx(*c.at(128) * std::sqrt(after / before * gain)).epsilon(1e-4));
      ++checked;
    }
  }
  CHECK(checked >= 4);
}

TEST_CASE("the budget goes where it takes off most error per byte, and is never passed", "[calibrate]") {
  const auto candidate = [](double rel, double bytes) {
    CandidateReport c;
    c.predicted_rel_l2 = rel;
    c.geometry_bytes = bytes;
    return c;
  };
  const auto layers = [&] {
    PricedLayer a, b, c;
    a.elements = b.elements = c.elements = 1000;
    a.euclidean_rel_l2 = b.euclidean_rel_l2 = c.euclidean_rel_l2 = 0.03;
    a.candidates = {candidate(0.02, 10), candidate(0.01, 30)};
    b.candidates = {candidate(0.029, 10)};
    c.candidates = {candidate(0.04, 0)};  // worse for nothing
    return std::vector<PricedLayer>{a, b, c};
  };
  const auto chosen = [&](double budget) {
    auto all = layers();
    choose_within(all, budget);
    return std::vector<int>{all[0].chosen, all[1].chosen, all[2].chosen};
  };
  CHECK(chosen(0) == std::vector<int>{-1, -1, -1});
  CHECK(chosen(9.9) == std::vector<int>{-1, -1, -1});
  CHECK(chosen(10) == std::vector<int>{0, -1, -1});
  CHECK(chosen(30) == std::vector<int>{1, -1, -1});
  CHECK(chosen(40) == std::vector<int>{1, 0, -1});
  auto least = layers();
  choose_least_error(least);
  CHECK(least[0].chosen == 1);
  CHECK(least[2].chosen == -1);

  const Scratch scratch;
  CalibrateOptions options;
  options.format = *parse_format("e4m3");
  options.budget = 0.001;
  const auto files = four_files(scratch);
  const auto nothing = calibrate(files, options, nullptr);
  REQUIRE(nothing.ok());
  CHECK(nothing->layers[0].chosen.geometry.kind == GeometryKind::euclidean);
  CHECK(holds(nothing->layers[0].note, "over the budget"));
  options.budget = 0.15;
  const auto some = calibrate(files, options, nullptr);
  REQUIRE(some.ok());
  CHECK(some->layers[0].chosen.geometry.kind == GeometryKind::deflate);
  CHECK(some->layers[0].chosen.geometry_bytes <= 0.15 * 8192 * 1.03125);
}

TEST_CASE("real gradients: predictions hold within a tenth on a step that was not seen", "[calibrate]") {
  const std::string folder = std::string(GIFT_FIXTURES) + "/gradients/";
  std::vector<std::string> files;
  for (int k = 0; k < 4; ++k) files.push_back(folder + "step000200-rank" + std::to_string(k) + ".safetensors");
  CalibrateOptions options = fixed_rank(32);
  options.layers = "*.qkv.weight";
  const auto result = calibrate(files, options, nullptr);
  REQUIRE(result.ok());
  REQUIRE(result->layers.size() == 1);
  const auto test = SafetensorsFile::open(folder + "step000201-rank0.safetensors");
  REQUIRE(test.ok());
  const auto codec = Codec::open("cpu");
  const auto error =
      encode_error(*codec, {"layers.1.qkv.weight", {768, 256}, Dtype::f32}, *test->read_f32("layers.1.qkv.weight"),
                   options.format, result->layers[0].chosen.geometry, result->bases.layers.at("layers.1.qkv.weight"), nullptr);
  REQUIRE(error.ok());
  CHECK(*error == Approx(0.00773).epsilon(0.01));  // an independent FP64 program on the same dumps
  CHECK(result->layers[0].chosen.predicted_rel_l2 == Approx(*error).epsilon(0.1));
}
