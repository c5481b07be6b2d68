// The decoded gradient against the true one in FP64, within the bound that the format gives; measured/bound is printed for every
// format, and a bound that is never reached to a fifth would be vacuous.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "catch.hpp"
#include "error_bound.hpp"
#include "pipeline_kit.hpp"
#include "ref_codec.hpp"

using namespace kit;
using gift::GeometryKind;
using gift::Side;

namespace {

float bf16_at(const Bytes& payload, std::int64_t offset) {
  std::uint16_t code = 0;
  std::memcpy(&code, payload.data() + offset, 2);
  return gift::ref::from_bf16(code);
}

/// x -= S U^T with the S that travelled, in FP64; S_L after S_R.
void deflate_by_wire(const gift::TensorPlan& plan, const std::vector<Bytes>& payloads, Doubles& x) {
  const std::int64_t cols = plan.cols;
  for (std::size_t k = 0; k < payloads.size() && gift::has_right(plan.geometry.side); ++k) {
    const gift::PayloadLayout& p = plan.leg1[k];
    const gift::SideBasis& b = plan.basis->right;
    for (std::int64_t i = p.row_begin; i < p.row_end; ++i) {
      for (std::int64_t j = 0; j < b.rank; ++j) {
        const double s = static_cast<double>(bf16_at(payloads[k], p.s_right_offset + 2 * ((i - p.row_begin) * b.rank + j)));
        for (std::int64_t c = 0; c < cols; ++c) {
          x[static_cast<std::size_t>(i * cols + c)] -= s * static_cast<double>(b.u[static_cast<std::size_t>(c * b.rank + j)]);
        }
      }
    }
  }
  for (std::size_t k = 0; k < payloads.size() && gift::has_left(plan.geometry.side); ++k) {
    const gift::PayloadLayout& p = plan.leg1[k];
    const gift::SideBasis& b = plan.basis->left;
    for (std::int64_t j = 0; j < b.rank; ++j) {
      for (std::int64_t c = p.col_begin; c < p.col_end; ++c) {
        const std::int64_t at = p.s_left_offset + 2 * (j * (p.col_end - p.col_begin) + c - p.col_begin);
        const double s = static_cast<double>(bf16_at(payloads[k], at));
        for (std::int64_t i = 0; i < plan.rows; ++i) {
          x[static_cast<std::size_t>(i * cols + c)] -= s * static_cast<double>(b.u[static_cast<std::size_t>(i * b.rank + j)]);
        }
      }
    }
  }
}

struct Measured {
  double ratio = 0;  ///< largest error over its bound
  bool broken = false;
};

/// `judged_as`: the format whose bound is applied, the plan's own unless a control wants another.
Measured measure(const Case& c, const std::string& judged_as, double exaggerate = 1) {
  const gift::TensorPlan plan = plan_of(c);
  Ranks ranks("cpu", plan);
  std::vector<Floats> inputs;
  Doubles exact(static_cast<std::size_t>(c.rows * c.cols));
  const double share = c.op == gift::ReduceOp::mean ? 1.0 / c.world : 1.0;
  for (int rank = 0; rank < c.world; ++rank) {
    inputs.push_back(gradient(c.rows, c.cols, 31 + static_cast<std::uint64_t>(rank)));
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += share * static_cast<double>(inputs.back()[i]);
  }
  const StepResult step = ranks.step(inputs);
  std::vector<Doubles> mapped;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    mapped.push_back(widen(inputs[rank]));
    map_fp64(plan, mapped.back(), false);
    if (plan.deflates()) deflate_by_wire(plan, step.leg1[rank], mapped.back());
  }
  Doubles quantised;
  for (const Floats& part : step.quantised) quantised.insert(quantised.end(), part.begin(), part.end());
  gift::TensorPlan judge = plan;
  judge.format = *gift::parse_format(judged_as);
  const Doubles bound = gift::error_bound(judge, mapped, quantised);
  Doubles error = widen(from_dtype(step.outputs[0].data(), c.rows * c.cols, c.dtype));
  for (std::size_t i = 0; i < error.size(); ++i) error[i] = exaggerate * (error[i] - exact[i]);
  map_fp64(plan, error, false);  // linear: the error in the coordinates that were quantised
  Measured result;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double ratio = bound[i] > 0 ? std::abs(error[i]) / bound[i] : (error[i] == 0 ? 0 : HUGE_VAL);
    result.ratio = std::max(result.ratio, ratio);
    result.broken = result.broken || !(std::abs(error[i]) <= bound[i]);
  }
  return result;
}

}  // namespace

TEST_CASE("decoded minus exact stays within the bound of the format, and comes near it", "[pipeline][bound]") {
  std::map<std::string, std::pair<double, double>> by_format;  // smallest and largest measured/bound
  for (const std::string& format : all_formats()) {
    auto& [least, most] = by_format.emplace(format, std::pair(HUGE_VAL, 0.0)).first->second;
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      for (const int world : {1, 2, 4, 8}) {
        Case c{format, map.kind, map.side, 24, 96, 4, world, false};
        c.op = world == 4 ? gift::ReduceOp::sum : gift::ReduceOp::mean;
        const Measured m = measure(c, format);
        INFO(describe(c) << " measured/bound " << m.ratio);
        CHECK_FALSE(m.broken);
        if (format != "fp32") CHECK(m.ratio > 0.2);
        least = std::min(least, m.ratio);
        most = std::max(most, m.ratio);
      }
    }
  }
  CHECK(by_format["fp32"].second > 0.2);
  std::printf("largest |decoded - exact| over its bound, by format (over maps and 1, 2, 4, 8 ranks):\n");
  for (const auto& [format, range] : by_format) std::printf("  %-14s %.3f to %.3f\n", format.c_str(), range.first, range.second);
}

TEST_CASE("the bound breaks for a coarser format, and for twice the error", "[pipeline][bound]") {
  Case c{"e5m2", GeometryKind::deflate, Side::right, 24, 96, 4, 2, false};
  CHECK(measure(c, "e4m3").broken);
  c.format = "e4m3";
  CHECK_FALSE(measure(c, "e4m3").broken);
  CHECK(measure(c, "e4m3", 2.0).broken);
  c.format = "mxfp4:floor";
  CHECK(measure(c, "mxfp4").broken);  // what saturates is beyond the ceil rule's bound
  c.format = "e4m3:sr";
  CHECK(measure(c, "e4m3").broken);  // stochastic rounding goes further than to nearest
}
