// Inputs that broke neighbouring projects: tiny blocks beside large ones, vectors beside matrices, huge values, many ranks, ranks
// of different size, zeros, and counters that people read.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

#include "catch.hpp"
#include "pipeline_kit.hpp"

using namespace kit;
using gift::GeometryKind;
using gift::Side;

namespace {

Floats output_of(const StepResult& step, const gift::TensorPlan& plan) {
  return from_dtype(step.outputs[0].data(), plan.elements(), plan.dtype);
}

bool finite(const Floats& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

TEST_CASE("low-amplitude cliff: a block below nvfp4's smallest scale is zeros, and feedback delivers it in time",
          "[pipeline][faults]") {
  for (const char* format : {"nvfp4", "nvfp4:tensor"}) {
    for (const int world : {1, 2}) {
      Case c{format, GeometryKind::euclidean, Side::none, 1, 32, 1, world};
      Floats x(32, 1e-6f);
      std::fill_n(x.begin(), 16, 0.0f);
      x[0] = 1.0f;
      const std::vector<Floats> inputs(static_cast<std::size_t>(world), x);
      Ranks ranks("cpu", plan_of(c));
      const Floats first = output_of(ranks.step(inputs), ranks.plan());
      CHECK(std::all_of(first.begin() + 1, first.end(), [](float v) { return v == 0.0f; }));
      Doubles total = widen(first);
      for (int t = 1; t < 1000; ++t) {
        const Floats out = output_of(ranks.step(inputs), ranks.plan());
        REQUIRE(finite(out));
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(out[i]);
      }
      for (std::size_t i = 16; i < 32; ++i) CHECK(std::abs(total[i] / 1000 - 1e-6) < 1e-8);
      CHECK(std::abs(total[0] / 1000 - 1) < 1e-6);
      Case plain = c;
      plain.feedback = false;
      Ranks without("cpu", plan_of(plain));
      const Floats lost = output_of(without.step(inputs), without.plan());
      CHECK(lost[20] == 0.0f);  // the control: without feedback it never arrives
    }
  }
}

TEST_CASE("a vector beside a large matrix keeps its precision", "[pipeline][faults]") {
  const std::vector<gift::TensorDesc> bucket = {{"fc.weight", {4096, 64}, gift::Dtype::f32}, {"fc.bias", {64}, gift::Dtype::f32}};
  Floats bias(64);
  Random random(3);
  for (float& v : bias) v = 1e-4f * random.normal();
  const auto relative_error = [&](const gift::Recipe& recipe) {
    gift::Result<gift::Plan> plan = gift::Plan::make(recipe, bucket, 2, gift::BasisSet());
    REQUIRE(plan.ok());
    Ranks ranks("cpu", plan->tensors()[1]);
    const Floats out = output_of(ranks.step({bias, bias}), ranks.plan());
    double error = 0, energy = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double v = static_cast<double>(bias[i]), d = static_cast<double>(out[i]) - v;
      error += d * d, energy += v * v;
    }
    return std::sqrt(error / energy);
  };
  gift::Recipe recipe;
  CHECK(relative_error(recipe) == 0);  // exempt: FP32
  gift::Rule rule;
  rule.match = "*bias";
  rule.exempt = false;
  recipe.rules.push_back(rule);
  const double own_blocks = relative_error(recipe);
  CHECK(own_blocks > 0.005);
  CHECK(own_blocks < 0.05);  // its own scale, never the neighbour's
}

TEST_CASE("huge values do not pass through a narrower type", "[pipeline][faults]") {
  for (const std::string& format : all_formats()) {
    for (const gift::Dtype dtype : {gift::Dtype::f32, gift::Dtype::bf16}) {
      for (const float huge : {1e30f, 70000.0f, 65504.0f, 3e38f}) {
        Case c{format, GeometryKind::euclidean, Side::none, 2, 64, 1, 2, false, gift::ReduceOp::mean, dtype};
        INFO(describe(c) << " " << huge);
        std::vector<Floats> inputs(2, Floats(128, 1.0f));
        inputs[0][0] = huge;
        inputs[0] = from_dtype(to_dtype(inputs[0], dtype).data(), 128, dtype);  // what the caller's type holds
        Ranks ranks("cpu", plan_of(c));
        const StepResult step = ranks.step(inputs);
        CHECK_FALSE(step.non_finite);
        const Floats out = output_of(step, ranks.plan());
        REQUIRE(finite(out));
        const double expected = (static_cast<double>(inputs[0][0]) + 1) / 2;
        CHECK(std::abs(static_cast<double>(out[0]) - expected) <= 0.45 * expected);  // two roundings of the coarsest format
      }
    }
  }
}

TEST_CASE("a sum beyond the caller's type is Inf, and counted", "[pipeline][faults]") {
  Case c{"bf16", GeometryKind::euclidean, Side::none, 2, 8, 1, 2, false, gift::ReduceOp::sum, gift::Dtype::f16};
  std::vector<Floats> inputs(2, Floats(16, 1.0f));
  inputs[0][3] = inputs[1][3] = 60000.0f;
  inputs[0][9] = inputs[1][9] = -60000.0f;
  Ranks ranks("cpu", plan_of(c));
  const StepResult step = ranks.step(inputs);
  CHECK_FALSE(step.non_finite);
  CHECK(step.overflowed == 2);
  const Floats out = output_of(step, ranks.plan());
  CHECK((std::isinf(out[3]) && out[3] > 0));
  CHECK((std::isinf(out[9]) && out[9] < 0));
  CHECK(out[0] == 2.0f);
}

TEST_CASE("partial sums are FP32: 256 and many ones", "[pipeline][faults]") {
  for (const std::string& format :
       {std::string("fp32"), std::string("e4m3"), std::string("e4m3:tensor"), std::string("e5m2"), std::string("nvfp4")}) {
    for (const int world : {2, 8, 64}) {
      Case c{format, GeometryKind::euclidean, Side::none, 64, 32, 1, world, false, gift::ReduceOp::sum};
      std::vector<Floats> inputs(static_cast<std::size_t>(world), Floats(64 * 32, 1.0f));
      std::fill(inputs[0].begin(), inputs[0].end(), 256.0f);
      Ranks ranks("cpu", plan_of(c));
      const Floats out = output_of(ranks.step(inputs), ranks.plan());
      INFO(describe(c));
      const double expected = 256 + world - 1;  // an E4M3 or FP16-free sum: 256 + 1 would stay 256 in E4M3
      for (const float v : out) CHECK(std::abs(static_cast<double>(v) - expected) <= expected * 4 * 0x1p-23);
    }
  }
}

TEST_CASE("64 ones on 2 ranks are 64 twos", "[pipeline][faults]") {
  for (const std::string& format : all_formats()) {
    Case c{format, GeometryKind::euclidean, Side::none, 1, 64, 1, 2, false, gift::ReduceOp::sum};
    Ranks ranks("cpu", plan_of(c));
    const Floats out = output_of(ranks.step(std::vector<Floats>(2, Floats(64, 1.0f))), ranks.plan());
    INFO(describe(c));
    // SR may go up one code where 1.0 times the FP32 scale is not exactly a code; all others land on it.
    const double allowed = format.find(":sr") != std::string::npos || format.rfind("mxfp4", 0) == 0 ? 1.0 : 1e-6;
    for (const float v : out) CHECK(std::abs(static_cast<double>(v) - 2.0) <= allowed);
  }
}

TEST_CASE("ranks of different size are decoded by their own scales", "[pipeline][faults]") {
  for (const std::string& format :
       {std::string("e4m3:tensor"), std::string("e4m3"), std::string("nvfp4:tensor"), std::string("mxfp8")}) {
    Case c{format, GeometryKind::euclidean, Side::none, 2, 256, 1, 2, false, gift::ReduceOp::sum};
    const Floats pattern = gradient(1, 256, 5);
    std::vector<Floats> inputs(2, Floats(512, 0.0f));
    for (std::size_t i = 0; i < 256; ++i) {
      inputs[0][i] = pattern[i];                        // row 0, from the small rank
      inputs[1][256 + i] = 1000.0f * pattern[255 - i];  // row 1, from the large one
    }
    Ranks ranks("cpu", plan_of(c));
    const Floats out = output_of(ranks.step(inputs), ranks.plan());
    for (const std::size_t row : {0u, 1u}) {
      double error = 0, energy = 0;
      for (std::size_t i = 256 * row; i < 256 * row + 256; ++i) {
        const double v = static_cast<double>(inputs[row][i]), d = static_cast<double>(out[i]) - v;
        error += d * d, energy += v * v;
      }
      INFO(describe(c) << " row " << row << " RelL2 " << std::sqrt(error / energy));
      CHECK(std::sqrt(error / energy) < (format.rfind("nvfp4", 0) == 0 ? 0.2 : 0.06));
    }
  }
}

TEST_CASE("zeros of either sign decode to exact zeros", "[pipeline][faults]") {
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      for (const float zero : {0.0f, -0.0f}) {
        Case c{format, map.kind, map.side, 5, 48, 3, 3};
        INFO(describe(c));
        Ranks ranks("cpu", plan_of(c));
        const StepResult step = ranks.step(std::vector<Floats>(3, Floats(5 * 48, zero)));
        CHECK_FALSE(step.non_finite);
        for (const float v : output_of(step, ranks.plan())) CHECK(v == 0.0f);
        for (const Floats& r : ranks.residual) CHECK(max_abs(widen(r)) == 0);
      }
    }
  }
}

TEST_CASE("the extremes of FP32 stay finite and keep their size", "[pipeline][faults]") {
  for (const std::string& format : all_formats()) {
    for (const float size : {1e-45f, 1e-40f, 1e-37f, 5e-36f, 7.8e-36f, 1e30f, 1e36f, FLT_MAX}) {
      Case c{format, GeometryKind::euclidean, Side::none, 2, 64, 1, 1, false};
      Ranks ranks("cpu", plan_of(c));
      const StepResult step = ranks.step(std::vector<Floats>{Floats(128, size)});
      INFO(describe(c) << " " << size);
      CHECK_FALSE(step.non_finite);
      const Floats out = output_of(step, ranks.plan());
      REQUIRE(finite(out));
      for (const float v : out) CHECK(static_cast<double>(v) <= static_cast<double>(FLT_MAX));
      // From where no scale is clamped or subnormal, two roundings of the coarsest format (mxfp4: a quarter each, floor: a
      // third).
      if (size >= 7.8e-36f) CHECK(std::abs(static_cast<double>(out[77]) / static_cast<double>(size) - 1) < 0.6);
    }
  }
}

TEST_CASE("non-zero in, non-zero out", "[pipeline][faults]") {
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      Case c{format, map.kind, map.side, 6, 64, 2, 4, false};
      std::vector<Floats> inputs(4, Floats(6 * 64, 0.0f));
      inputs[3] = gradient(6, 64, 11);
      Ranks ranks("cpu", plan_of(c));
      INFO(describe(c));
      CHECK(max_abs(widen(output_of(ranks.step(inputs), ranks.plan()))) > 0);
    }
  }
}

TEST_CASE("what encode reports is what happened", "[pipeline][stats]") {
  gift::Result<gift::Codec> codec = gift::Codec::open("cpu");
  REQUIRE(codec.ok());
  for (const Map& map : all_maps()) {
    Case c{"e4m3", map.kind, map.side, 16, 64, 4, 1, false};
    const gift::TensorPlan plan = plan_of(c);
    const Floats x = gradient(c.rows, c.cols, 21);
    Floats out(x.size());
    gift::EncodeStats stats;
    std::int64_t bytes = 0;
    REQUIRE(codec->round_trip(plan, x.data(), nullptr, out.data(), {}, &stats, &bytes).ok());
    CHECK(bytes == plan.leg1[0].total_bytes);
    double error = 0, energy = 0;
    Doubles gap(x.size()), mapped = widen(x);
    for (std::size_t i = 0; i < x.size(); ++i) gap[i] = static_cast<double>(x[i]) - static_cast<double>(out[i]);
    map_fp64(plan, gap, false);
    map_fp64(plan, mapped, false);
    for (std::size_t i = 0; i < x.size(); ++i) error += gap[i] * gap[i], energy += mapped[i] * mapped[i];
    INFO(describe(c));
    CHECK(std::abs(stats.error_energy / error - 1) < 1e-3);
    CHECK(std::abs(stats.energy / energy - 1) < 1e-5);
    CHECK(stats.top_codes >= 16);  // the amax of each block
    CHECK_FALSE(stats.non_finite);
  }
  Case c{"e4m3:row", GeometryKind::euclidean, Side::none, 1, 8, 1, 1, false};
  const Floats x = {448, -448, 1, 0x1p-12f, -0x1p-12f, 0x1p-9f, 0, -0.0f};
  Floats out(8);
  gift::EncodeStats stats;
  REQUIRE(codec->round_trip(plan_of(c), x.data(), nullptr, out.data(), {}, &stats, nullptr).ok());
  CHECK(stats.top_codes == 2);
  CHECK(stats.bottom_codes == 2);
  CHECK(stats.saturated == 0);
  c.format = "mxfp4:floor";
  const Floats y = {7.9f, -7, 6, 6.5f, 4, 1, 0, 0};  // scale 1: what would round to 8 saturates
  REQUIRE(codec->round_trip(plan_of(c), y.data(), nullptr, out.data(), {}, &stats, nullptr).ok());
  CHECK(stats.saturated == 2);  // 6.5 still rounds to 6
  CHECK(out[0] == 6.0f);
}

TEST_CASE("stochastic draws differ by rank and step and repeat by key", "[pipeline][stochastic]") {
  Case c{"e4m3:sr", GeometryKind::euclidean, Side::none, 8, 64, 1, 2, false};
  const std::vector<Floats> inputs(2, gradient(8, 64, 2));
  Ranks a("cpu", plan_of(c), 5), b("cpu", plan_of(c), 5), other("cpu", plan_of(c), 6);
  const StepResult first = a.step(inputs), again = b.step(inputs), seeded = other.step(inputs);
  CHECK(first.leg1 == again.leg1);
  CHECK(first.outputs == again.outputs);
  CHECK_FALSE(first.leg1[0] == first.leg1[1]);
  CHECK_FALSE(first.leg1 == seeded.leg1);
  CHECK_FALSE(a.step(inputs).leg1 == first.leg1);
}
