// Telling files apart, statistics of tensors, and cutting bases down.
#include <cmath>
#include <cstring>
#include <limits>

#include "../catch.hpp"
#include "../scratch.hpp"
#include "gift/inspect.hpp"

namespace {

using gift::tests::Scratch;

const std::string golden_basis = std::string(GIFT_FIXTURES) + "/golden/bases_v1.safetensors";

gift::Result<gift::TensorStats> stats_of(const std::vector<float>& values) {
  const Scratch scratch;
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::vector<gift::TensorOut> tensors = {{"x", "F32", {static_cast<std::int64_t>(values.size())}, bytes}};
  REQUIRE(gift::write_safetensors(scratch / "x.safetensors", tensors, {}).ok());
  return gift::tensor_stats(*gift::SafetensorsFile::open(scratch / "x.safetensors"), "x");
}

double dot(const gift::SideBasis& side, std::int32_t i, std::int32_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < side.dim; ++k) {
    const auto row = static_cast<std::size_t>(k * side.rank);
    sum += static_cast<double>(side.u[row + static_cast<std::size_t>(i)]) *
           static_cast<double>(side.u[row + static_cast<std::size_t>(j)]);
  }
  return sum;
}

}  // namespace

TEST_CASE("inspect: a file is known by its content") {
  using gift::FileKind;
  const Scratch scratch;
  const auto kind_of = [&](const std::string& text) {
    REQUIRE(gift::write_file_atomically(scratch / "f", std::as_bytes(std::span(text))).ok());
    return gift::identify_file(scratch / "f");
  };
  CHECK(*gift::identify_file(std::string(GIFT_FIXTURES) + "/gradients/step000200-rank0.safetensors") == FileKind::tensors);
  CHECK(*gift::identify_file(golden_basis) == FileKind::basis);
  CHECK(*kind_of("format = 'nvfp4'\n") == FileKind::recipe);
  CHECK(kind_of("formt = 'nvfp4'\n").status().message() ==
        scratch / "f" + ":1:1: unknown key 'formt' in the recipe; did you mean 'format'?");
  CHECK(kind_of("").status().message() == scratch / "f" + ": is empty, so it is not a safetensors file");
  CHECK(kind_of("version https://git-lfs.github.com/spec/v1\noid = 1\n").status().message().find("Git LFS") != std::string::npos);
  CHECK(kind_of("<html a='b'></html>").status().message().find("web page") != std::string::npos);
  CHECK(gift::identify_file(scratch / "none").status().code() == gift::Code::io);

  std::vector<gift::TensorOut> none;
  REQUIRE(gift::write_safetensors(scratch / "s", none,
                                  {{"gift.state", R"({"world":4,"rank":1,"step":12,"seed":7,"tensors":{"w":{"committed":3}}})"}})
              .ok());
  CHECK(*gift::identify_file(scratch / "s") == FileKind::state);
  const auto state = gift::summarise_state(*gift::SafetensorsFile::open(scratch / "s"));
  REQUIRE(state.ok());
  CHECK(state->world == 4);
  CHECK(state->rank == 1);
  CHECK(state->step == 12);
  CHECK(state->seed == 7);
  REQUIRE(state->tensors.size() == 1);
  CHECK(state->tensors[0].name == "w");
  CHECK(state->tensors[0].committed == 3);
  for (const char* text : {"", "[]", "{", R"({"tensors":3})", R"({"tensors":{"w":1}})"}) {
    REQUIRE(gift::write_safetensors(scratch / "s", none, {{"gift.state", text}}).ok());
    CHECK(gift::summarise_state(*gift::SafetensorsFile::open(scratch / "s")).status().code() == gift::Code::bad_file);
  }
}

TEST_CASE("inspect: statistics count what is not finite and leave it out") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto stats = stats_of({3, -4, 0, -0.0f, nan, inf, -inf});
  REQUIRE(stats.ok());
  CHECK(stats->elements == 7);
  CHECK(stats->nans == 1);
  CHECK(stats->infs == 2);
  CHECK(stats->zeros == 2);
  CHECK(stats->amax == 4);
  CHECK(stats->rms == Approx(std::sqrt(25.0 / 4)));
  CHECK(stats_of({})->elements == 0);
  CHECK(stats_of({})->rms == 0);
  CHECK(stats_of({nan})->rms == 0);
  std::vector<float> many((3 << 20) + 5, 2.0f);  // several pieces, the last one short
  many.back() = -7;
  CHECK(stats_of(many)->amax == 7);
  CHECK(stats_of(many)->elements == static_cast<std::int64_t>(many.size()));
}

TEST_CASE("inspect: bases of version 1 read for ever") {
  const auto set = gift::load_basis(golden_basis);
  INFO(set.status().message());
  REQUIRE(set.ok());
  REQUIRE(set->layers.size() == 3);
  CHECK(gift::to_string(set->hash()) == "70bc15e780011c01b69871a8df5b60f1");
  CHECK(gift::to_string(set->layers.at("both")->hash) == "ba5c36d97117eec46e6f63ffcfc6cecf");
  CHECK(gift::to_string(set->layers.at("right")->hash) == "f76e3e2f42066e5be2cf88e9f0a64910");
  CHECK(gift::to_string(set->layers.at("whiten")->hash) == "2fae93301a346898fe2ce688b4ae41fb");
  CHECK(set->metadata.at("source") == "fixtures");
}

TEST_CASE("inspect: a truncated basis keeps the leading columns and is sealed again") {
  const auto set = gift::load_basis(golden_basis);
  REQUIRE(set.ok());
  const gift::LayerBasis& both = *set->layers.at("both");
  const auto cut = gift::truncate_basis(both, 2);
  REQUIRE(cut.ok());
  CHECK((*cut)->right.rank == 2);
  CHECK((*cut)->left.rank == 2);
  CHECK((*cut)->right.u.size() == static_cast<std::size_t>(2 * both.right.dim));
  CHECK((*cut)->right.eigenvalues == std::vector<double>(both.right.eigenvalues.begin(), both.right.eigenvalues.begin() + 2));
  for (std::int64_t row = 0; row < both.right.dim; ++row) {
    for (std::int64_t j = 0; j < 2; ++j) {
      REQUIRE((*cut)->right.u[static_cast<std::size_t>(row * 2 + j)] ==
              both.right.u[static_cast<std::size_t>(row * both.right.rank + j)]);
    }
  }
  CHECK(dot((*cut)->right, 0, 0) == Approx(1).margin(1e-6));
  CHECK(dot((*cut)->right, 0, 1) == Approx(0).margin(1e-6));
  CHECK_FALSE((*cut)->hash == both.hash);
  CHECK((*gift::truncate_basis(both, 1000))->hash == both.hash);
  CHECK_FALSE(gift::truncate_basis(both, 0).ok());

  // Whitening: D of the smaller rank is what calibration would have made at that rank.
  const gift::LayerBasis& whiten = *set->layers.at("whiten");
  const auto small = gift::truncate_basis(whiten, 1);
  REQUIRE(small.ok());
  const std::vector<double> leading(whiten.right.eigenvalues.begin(), whiten.right.eigenvalues.begin() + 1);
  std::vector<float> d, d_inv;
  REQUIRE(gift::whiten_scales(leading, whiten.right.trace, whiten.right.dim, whiten.exponent, whiten.damping, d, d_inv).ok());
  CHECK((*small)->right.d == d);
  CHECK((*small)->right.d_inv == d_inv);
  CHECK_FALSE((*small)->right.d[0] == whiten.right.d[0]);  // the tail grew
}
