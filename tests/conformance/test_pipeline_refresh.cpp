// A new basis: a residual of deflation stays where it is, one of whitening is re-expressed, and nothing is lost either way. And
// the way back after a flagged tensor: rollback.
#include <cmath>
#include <cstdio>

#include "backend.hpp"
#include "catch.hpp"
#include "pipeline_kit.hpp"

using namespace kit;
using gift::GeometryKind;
using gift::Side;

namespace {

std::vector<Floats> inputs_of(const Case& c, std::uint64_t seed) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < c.world; ++rank) inputs.push_back(gradient(c.rows, c.cols, seed + static_cast<std::uint64_t>(rank)));
  return inputs;
}

bool whitened_residual(const gift::TensorPlan& plan) {
  return plan.geometry.kind == GeometryKind::whiten && plan.geometry.side == Side::right;
}

Doubles total_owed(const Ranks& ranks) {
  Doubles total = owed(ranks);
  const double factor = ranks.plan().op == gift::ReduceOp::mean ? ranks.plan().world : 1;
  for (double& v : total) v *= factor;
  map_fp64(ranks.plan(), total, true);
  for (const Floats& residual : ranks.residual) {
    Doubles r = widen(residual);
    if (whitened_residual(ranks.plan())) map_fp64(ranks.plan(), r, true);
    for (std::size_t i = 0; i < r.size(); ++i) total[i] += r[i];
  }
  return total;
}

void refresh(Ranks& ranks, const gift::TensorPlan& fresh) {
  const gift::Backend& backend = gift::backend_of(ranks.codec());
  for (int rank = 0; rank < fresh.world; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const gift::Status status = backend.re_express(ranks.plan(), fresh, rank, ranks.owner[at].data(), ranks.residual[at].data());
    INFO(status.message());
    REQUIRE(status.ok());
  }
  ranks.set_plan(fresh);
}

}  // namespace

TEST_CASE("a refresh of the basis loses nothing", "[pipeline][refresh]") {
  for (const std::string& backend : {std::string("ref"), std::string("cpu")}) {
    for (const Map& map : all_maps()) {
      for (const int world : {1, 3}) {
        Case c{"nvfp4", map.kind, map.side, 10, 32, 3, world};
        c.op = world == 3 ? gift::ReduceOp::mean : gift::ReduceOp::sum;
        INFO(describe(c));
        Ranks ranks(backend, plan_of(c));
        for (std::uint64_t t = 0; t < 3; ++t) ranks.step(inputs_of(c, 10 * t));
        const Doubles before = total_owed(ranks);
        const std::vector<Floats> residual = ranks.residual, owner = ranks.owner;
        Case fresh = c;
        fresh.basis_seed = 1234;
        refresh(ranks, plan_of(fresh));
        const Doubles after = total_owed(ranks);
        double gap = 0;
        for (std::size_t i = 0; i < before.size(); ++i) gap = std::max(gap, std::abs(before[i] - after[i]));
        CHECK(max_abs(before) > 0);
        CHECK(gap <= max_abs(before) * 64 * 0x1p-24 * world);
        if (map.kind == GeometryKind::whiten) {
          CHECK_FALSE(ranks.residual == residual);
          for (const Floats& part : ranks.owner) CHECK(max_abs(widen(part)) == 0);
        } else {
          CHECK(ranks.residual == residual);
          CHECK(ranks.owner == owner);
        }
      }
    }
  }
}

TEST_CASE("a change of geometry loses nothing either", "[pipeline][refresh]") {
  for (const Map& from : all_maps()) {
    for (const Map& to : all_maps()) {
      Case c{"mxfp4", from.kind, from.side, 9, 32, 3, 2}, d = c;
      d.kind = to.kind;
      d.side = to.side;
      INFO(describe(c) << " -> " << describe(d));
      Ranks ranks("cpu", plan_of(c));
      for (std::uint64_t t = 0; t < 2; ++t) ranks.step(inputs_of(c, 10 * t));
      const Doubles before = total_owed(ranks);
      refresh(ranks, plan_of(d));
      const Doubles after = total_owed(ranks);
      double gap = 0;
      for (std::size_t i = 0; i < before.size(); ++i) gap = std::max(gap, std::abs(before[i] - after[i]));
      CHECK(gap <= max_abs(before) * 128 * 0x1p-24);
    }
  }
}

TEST_CASE("NaN or Inf anywhere, on any rank: all NaN on all ranks, and residuals are put back", "[pipeline][nonfinite]") {
  double worst = 0;
  int flagged = 0;
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      for (const gift::Dtype dtype : {gift::Dtype::f32, gift::Dtype::bf16, gift::Dtype::f16}) {
        Case c{format, map.kind, map.side, 5, 33, 3, 2, true, gift::ReduceOp::mean, dtype};
        INFO(describe(c));
        Ranks ranks("cpu", plan_of(c));
        ranks.step(inputs_of(c, 4));
        const std::vector<Floats> residual = ranks.residual, owner = ranks.owner;
        for (const std::size_t position : {0u, 1u, 15u, 16u, 31u, 32u, 33u, 164u}) {
          for (const float poison : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
            std::vector<Floats> inputs = inputs_of(c, 50 + position);
            const std::size_t rank = position % 2;
            inputs[rank][position] = poison;
            const StepResult step = ranks.step(inputs);
            CHECK(step.non_finite);
            CHECK(step.encoded[rank].non_finite);
            CHECK_FALSE(step.encoded[1 - rank].non_finite);
            for (const Bytes& output : step.outputs) {
              const Floats values = from_dtype(output.data(), c.rows * c.cols, dtype);
              CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
            }
            CHECK(ranks.owner == owner);
            for (std::size_t r = 0; r < 2; ++r) {
              // Putting back rounds at the size of X, not of R.
              double largest = 1e-30;
              for (const float v : inputs[r])
                largest = std::max(largest, std::isfinite(v) ? std::abs(static_cast<double>(v)) : 0.0);
              double gap = 0;
              for (std::size_t i = 0; i < residual[r].size(); ++i) {
                gap = std::max(gap, std::abs(static_cast<double>(ranks.residual[r][i]) - static_cast<double>(residual[r][i])));
              }
              worst = std::max(worst, gap / largest);
              CHECK(gap <= largest * 64 * 0x1p-24);
            }
            ranks.residual = residual;
            ++flagged;
          }
        }
      }
    }
  }
  std::printf("rollback: %d flagged tensors, largest difference %.1f units of 2^-24 of the largest input\n", flagged,
              worst * 0x1p24);
}

TEST_CASE("rows of a right map that hold a NaN keep their residual to the bit", "[pipeline][nonfinite]") {
  for (const Map& map : all_maps()) {
    if (gift::has_left(map.side)) continue;
    Case c{"nvfp4", map.kind, map.side, 6, 32, 3, 1};
    INFO(describe(c));
    Ranks ranks("cpu", plan_of(c));
    ranks.step(inputs_of(c, 4));
    const Floats residual = ranks.residual[0];
    std::vector<Floats> inputs = inputs_of(c, 5);
    inputs[0][2 * 32 + 7] = std::nanf("");
    ranks.step(inputs);
    for (std::size_t i = 2 * 32; i < 3 * 32; ++i) CHECK(ranks.residual[0][i] == residual[i]);
  }
}

TEST_CASE("overflow on the way is flagged: X, the projection, the sum", "[pipeline][nonfinite]") {
  for (const Map& map : all_maps()) {
    Case c{"bf16", map.kind, map.side, 4, 32, 2, 2};
    INFO(describe(c));
    {  // W finite, R finite, X not
      Ranks ranks("cpu", plan_of(c));
      std::vector<Floats> inputs = inputs_of(c, 1);
      ranks.residual[1][3] = 3e38f;
      inputs[1][3] = 3e38f;
      const StepResult step = ranks.step(inputs);
      CHECK(step.encoded[1].non_finite);
      if (!gift::has_left(map.side)) CHECK(ranks.residual[1][3] == 3e38f);
    }
    if (map.kind == GeometryKind::euclidean) {  // both finite, the sum not
      Ranks ranks("cpu", plan_of(c));
      std::vector<Floats> inputs = inputs_of(c, 1);
      inputs[0][5] = inputs[1][5] = 3e38f;
      const StepResult step = ranks.step(inputs);
      CHECK_FALSE((step.encoded[0].non_finite || step.encoded[1].non_finite));
      CHECK(step.non_finite);
    }
    if (map.kind == GeometryKind::hadamard) {  // a sum inside the butterflies
      Ranks ranks("cpu", plan_of(c));
      std::vector<Floats> inputs = inputs_of(c, 1);
      std::fill(inputs[0].begin(), inputs[0].end(), 3e38f);
      CHECK(ranks.step(inputs).encoded[0].non_finite);
    }
  }
}
