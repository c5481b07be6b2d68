// The four metrics, and the methods that fidelity compares.
#include <cmath>
#include <limits>
#include <set>

#include "catch.hpp"
#include "gift/fidelity.hpp"

using namespace gift;

TEST_CASE("the four metrics of a known error", "[fidelity]") {
  const float w[] = {3, 0, -4, 0}, v[] = {3, 1, -4, 0};
  const Metrics m = compare(w, v, 4);
  CHECK(m.rel_l2 == Approx(1.0 / 5));
  CHECK(m.cosine == Approx(25 / (5 * std::sqrt(26.0))));
  CHECK(m.max_err == 1);
  CHECK(m.mse == Approx(0.25));
}

TEST_CASE("metrics at the edges: equal, zero, empty, not finite", "[fidelity]") {
  const float zero[] = {0, 0}, one[] = {1, 0}, nan[] = {std::numeric_limits<float>::quiet_NaN(), 0};
  CHECK(compare(one, one, 2).rel_l2 == 0);
  CHECK(compare(one, one, 2).cosine == 1);
  CHECK(compare(zero, zero, 2).rel_l2 == 0);
  CHECK(compare(zero, zero, 2).cosine == 1);
  CHECK(std::isnan(compare(zero, one, 2).rel_l2));
  CHECK(std::isnan(compare(one, zero, 2).cosine));
  CHECK(compare(one, zero, 2).rel_l2 == 1);
  CHECK(compare(one, one, 0).mse == 0);
  for (const double value :
       {compare(nan, one, 2).rel_l2, compare(one, nan, 2).cosine, compare(one, nan, 2).max_err, compare(nan, nan, 2).mse}) {
    CHECK(std::isnan(value));
  }
  const float tiny[] = {1e-30f, 0}, off[] = {1.5e-30f, 0};  // squares that FP32 could not hold
  CHECK(compare(tiny, off, 2).rel_l2 == Approx(0.5));
}

TEST_CASE("the default methods are distinct and parse back", "[fidelity]") {
  const auto methods = default_methods();
  CHECK(methods.size() == 11);
  std::set<std::string> labels;
  for (const auto& method : methods) labels.insert(method.label);
  CHECK(labels.size() == methods.size());
  for (const char* text :
       {"euclidean", "hadamard:block=64", "whiten", "whiten:p=0.25:delta=0.1", "deflate:activations", "deflate:rank=16",
        "deflate", "deflate:rank=64:right:gradients", "deflate:left", "deflate:both", "deflate:own"}) {
    CAPTURE(text);
    const auto method = parse_method(text);
    REQUIRE(method.ok());
    CHECK(labels.erase(method->label) == 1);
  }
  CHECK(labels.empty());
}

TEST_CASE("methods that make no sense are refused with the word that does not fit", "[fidelity]") {
  for (const char* text :
       {"", "deflat", "euclidean:right", "euclidean:rank=3", "hadamard:block=48", "hadamard:left", "deflate:rank=0",
        "deflate:rank=8x", "deflate:p=1", "whiten:p=nan", "whiten:delta=-1", "deflate::left", "deflate:none", "deflate:"}) {
    CAPTURE(text);
    const auto method = parse_method(text);
    REQUIRE_FALSE(method.ok());
    CHECK(method.status().code() == Code::invalid_argument);
  }
  CHECK(parse_method("deflate:rank=8x").status().message().find("'rank=8x'") != std::string::npos);
}

TEST_CASE("at_ranks varies only methods that have a rank, without repeats", "[fidelity]") {
  const auto methods = at_ranks(default_methods(), {8, 16});
  // euclidean, hadamard; two whitenings, three right-side deflations, left, both: seven distinct methods, each at two ranks
  CHECK(methods.size() == 2 + 7 * 2);
  CHECK(methods.back().label == "deflate r 16, own SVD (a bound: not summable), right");
}
