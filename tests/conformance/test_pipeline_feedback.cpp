// Error feedback: the four invariants of SPEC section 4 as properties over formats, geometries, sides, shapes and rank counts.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "catch.hpp"
#include "pipeline_kit.hpp"

using namespace kit;
using gift::GeometryKind;
using gift::Side;

namespace {

bool left_whitened(const gift::TensorPlan& plan) { return plan.geometry.kind == GeometryKind::whiten && plan.mixes_rows(); }

/// Everything the ranks still owe, in original coordinates and in units of the sum: residuals and owners' residuals.
Doubles outstanding(const Ranks& ranks) {
  const gift::TensorPlan& plan = ranks.plan();
  const bool whitened = plan.geometry.kind == GeometryKind::whiten && plan.geometry.side == Side::right;
  Doubles total = owed(ranks);
  if (plan.op == gift::ReduceOp::mean) {
    for (double& v : total) v *= plan.world;
  }
  map_fp64(plan, total, true);
  for (const Floats& residual : ranks.residual) {
    Doubles r = widen(residual);
    if (whitened) map_fp64(plan, r, true);
    for (std::size_t i = 0; i < r.size(); ++i) total[i] += r[i];
  }
  return total;
}

/// What was decoded, in units of the sum.
Doubles decoded_sum(const gift::TensorPlan& plan, const StepResult& step) {
  Doubles x = widen(from_dtype(step.outputs[0].data(), plan.elements(), plan.dtype));
  if (plan.op == gift::ReduceOp::mean) {
    for (double& v : x) v *= plan.world;
  }
  return x;
}

std::vector<Floats> inputs_of(const Case& c, std::uint64_t seed) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < c.world; ++rank) inputs.push_back(gradient(c.rows, c.cols, seed + static_cast<std::uint64_t>(rank)));
  return inputs;
}

Doubles sum_of(const std::vector<Floats>& inputs) {
  Doubles sum(inputs[0].size());
  for (const Floats& x : inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(x[i]);
  }
  return sum;
}

/// FP32 rounding of one step: every number goes through at most `chain` roundings at the size of the largest intermediate, which
/// the whitening map may amplify by up to 1/(1 - D).
double rounding_allowance(const gift::TensorPlan& plan, double largest) {
  double amplification = 1;
  for (const gift::SideBasis* side : {plan.basis ? &plan.basis->right : nullptr, plan.basis ? &plan.basis->left : nullptr}) {
    if (side == nullptr) continue;
    float most = 0;
    for (const float d : side->d_inv) most = std::max(most, d);
    amplification *= 1 + static_cast<double>(most);
  }
  const double chain = 8 + 2 * (plan.rank_right() + plan.rank_left()) + plan.world;
  return chain * amplification * largest * plan.world * 0x1p-24;
}

}  // namespace

TEST_CASE("x + R_before equals decoded + R_after to FP32 rounding", "[pipeline][feedback]") {
  double worst = 0;
  std::size_t compared = 0;
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      for (const int world : {1, 2, 4}) {
        Case c{format, map.kind, map.side, world == 2 ? 3 : 12, world == 1 ? 33 : 40, 3, world};
        c.op = world == 4 ? gift::ReduceOp::sum : gift::ReduceOp::mean;
        INFO(describe(c));
        Ranks ranks("cpu", plan_of(c));
        Doubles before(static_cast<std::size_t>(c.rows * c.cols));
        for (std::uint64_t t = 0; t < 4; ++t) {
          std::vector<Floats> inputs = inputs_of(c, 100 * t + 1);
          for (Floats& input : inputs) {  // row 1 is zero on all ranks at first, row 2 on rank 0 always
            if (t == 0) std::fill_n(input.begin() + c.cols, c.cols, 0.0f);
          }
          if (world > 1) std::fill_n(inputs[0].begin() + 2 * c.cols, c.cols, 0.0f);
          const Doubles x = sum_of(inputs);
          const StepResult step = ranks.step(inputs);
          REQUIRE_FALSE(step.non_finite);
          const Doubles decoded = decoded_sum(ranks.plan(), step), after = outstanding(ranks);
          const double largest = std::max({max_abs(x), max_abs(decoded), max_abs(before), max_abs(after)});
          const double allowed = rounding_allowance(ranks.plan(), largest);
          for (std::size_t i = 0; i < x.size(); ++i) {
            // Left whiten decodes a common zero row to 0 and keeps what the owner owes in mixed rows: nothing is due to this row.
            if (t == 0 && left_whitened(ranks.plan()) && static_cast<std::int64_t>(i) / c.cols == 1) continue;
            const double gap = std::abs(x[i] + before[i] - decoded[i] - after[i]);
            worst = std::max(worst, gap / allowed);
            if (!(gap <= allowed)) {
              INFO("step " << t << " element " << i << " gap " << gap << " allowed " << allowed);
              REQUIRE(gap <= allowed);
            }
            ++compared;
          }
          before = after;
        }
      }
    }
  }
  std::printf("conservation: %zu elements, largest gap %.2f of the FP32 rounding allowance\n", compared, worst);
  CHECK(compared > 100000);
}

TEST_CASE("without the residual the same check fails: it can fail", "[pipeline][feedback]") {
  Case c{"nvfp4", GeometryKind::deflate, Side::right, 12, 40, 3, 2};
  Ranks ranks("cpu", plan_of(c));
  const std::vector<Floats> inputs = inputs_of(c, 5);
  const StepResult step = ranks.step(inputs);
  const Doubles x = sum_of(inputs), decoded = decoded_sum(ranks.plan(), step);
  double gap = 0;
  for (std::size_t i = 0; i < x.size(); ++i) gap = std::max(gap, std::abs(x[i] - decoded[i]));
  CHECK(gap > 10 * rounding_allowance(ranks.plan(), max_abs(x)));
}

namespace {

/// |mean of the first T decoded steps - true mean| for T = 4, 8, ..., 128, as the slope of log2 error over log2 T.
double convergence_slope(const Case& c, double* last_error) {
  Ranks ranks("cpu", plan_of(c));
  const std::vector<Floats> inputs = inputs_of(c, 77);
  const Doubles x = sum_of(inputs);
  double norm = 0;
  for (const double v : x) norm += v * v;
  Doubles total(x.size());
  std::vector<double> log_error;
  for (int t = 1; t <= 128; ++t) {
    const Doubles decoded = decoded_sum(ranks.plan(), ranks.step(inputs));
    double gap = 0;
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] += decoded[i];
      gap += (total[i] / t - x[i]) * (total[i] / t - x[i]);
    }
    if (t >= 4 && (t & (t - 1)) == 0) log_error.push_back(std::log2(std::sqrt(gap / norm)));
    *last_error = std::sqrt(gap / norm);
  }
  const double n = static_cast<double>(log_error.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < log_error.size(); ++i) {
    const double at = static_cast<double>(i);
    sx += at, sy += log_error[i], sxx += at * at, sxy += at * log_error[i];
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

}  // namespace

TEST_CASE("the mean of T decoded steps of constant gradients converges as 1/T", "[pipeline][feedback]") {
  double flattest = -10, steepest = 10;
  int measured = 0;
  for (const std::string& format : {std::string("e4m3"), std::string("nvfp4"), std::string("mxfp4"), std::string("nvfp4:sr")}) {
    for (const Map& map : all_maps()) {
      for (int world = 1; world <= 4; ++world) {
        Case c{format, map.kind, map.side, 8, 32, 2, world};
        INFO(describe(c));
        double last = 0;
        const double slope = convergence_slope(c, &last);
        INFO("slope " << slope << ", error after 128 steps " << last);
        CHECK(slope < -0.8);
        CHECK(slope > -1.25);
        flattest = std::max(flattest, slope);
        steepest = std::min(steepest, slope);
        ++measured;
      }
    }
  }
  std::printf("convergence: %d cases, slopes from %.3f to %.3f (1/T is -1)\n", measured, steepest, flattest);
  Case plain{"nvfp4", GeometryKind::deflate, Side::right, 8, 32, 2, 2, false};
  double last = 0;
  const double slope = convergence_slope(plain, &last);
  std::printf("without error feedback: slope %.3f, error %.4f\n", slope, last);
  CHECK(std::abs(slope) < 0.05);  // the negative control: a repeated error does not average out
}

TEST_CASE("rows that are zero in W and R stay exactly zero", "[pipeline][feedback]") {
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      for (const int world : {1, 3}) {
        Case c{format, map.kind, map.side, 11, 32, 3, world};
        INFO(describe(c));
        Ranks ranks("cpu", plan_of(c));
        for (std::uint64_t t = 0; t < 3; ++t) {
          std::vector<Floats> inputs = inputs_of(c, 10 * t + 3);
          for (Floats& x : inputs) {
            for (const std::int64_t row : {2, 7, 10}) std::fill_n(x.begin() + row * c.cols, c.cols, row == 7 ? -0.0f : 0.0f);
          }
          std::fill_n(inputs[0].begin() + 5 * c.cols, c.cols, 0.0f);  // zero on rank 0, not on others
          const StepResult step = ranks.step(inputs);
          const Floats out = from_dtype(step.outputs[0].data(), c.rows * c.cols, c.dtype);
          for (const std::int64_t row : {2, 7, 10}) {
            const auto begin = row * c.cols;
            CHECK(std::all_of(out.begin() + begin, out.begin() + begin + c.cols, [](float v) { return v == 0.0f; }));
            for (const Floats& r : ranks.residual) {
              CHECK(std::all_of(r.begin() + begin, r.begin() + begin + c.cols, [](float v) { return v == 0.0f; }));
            }
            if (left_whitened(ranks.plan())) continue;  // there the owner's row is not this row
            const Doubles owner = owed(ranks);
            CHECK(std::all_of(owner.begin() + begin, owner.begin() + begin + c.cols, [](double v) { return v == 0.0; }));
          }
          const bool row5 = std::any_of(out.begin() + 5 * c.cols, out.begin() + 6 * c.cols, [](float v) { return v != 0.0f; });
          CHECK(row5 == (world > 1));
        }
      }
    }
  }
}

namespace {

/// The same basis with columns flipped or reversed.
gift::LayerBasisPtr altered(const gift::LayerBasis& basis, bool flip, bool reverse) {
  gift::LayerBasis other = basis;
  for (gift::SideBasis* side : {&other.right, &other.left}) {
    const gift::SideBasis old = *side;
    const auto rank = static_cast<std::size_t>(side->rank);
    for (std::size_t i = 0; i < side->u.size(); ++i) {
      const std::size_t j = i % rank;
      const float value = reverse ? old.u[i - j + rank - 1 - j] : old.u[i];
      side->u[i] = flip && j % 2 == 0 ? -value : value;
    }
    if (reverse) {
      std::reverse(side->d.begin(), side->d.end());
      std::reverse(side->d_inv.begin(), side->d_inv.end());
      std::reverse(side->eigenvalues.begin(), side->eigenvalues.end());
    }
  }
  const gift::Status sealed = other.seal();
  INFO(sealed.message());
  REQUIRE(sealed.ok());
  CHECK_FALSE(other.hash == basis.hash);
  return std::make_shared<const gift::LayerBasis>(other);
}

}  // namespace

TEST_CASE("a flipped basis column changes nothing, reordered columns only rounding", "[pipeline][feedback]") {
  for (const std::string& format :
       {std::string("bf16"), std::string("e4m3"), std::string("mxfp8"), std::string("nvfp4"), std::string("e4m3:sr")}) {
    for (const Map& map : all_maps()) {
      if (map.kind != GeometryKind::whiten && map.kind != GeometryKind::deflate) continue;
      Case c{format, map.kind, map.side, 12, 40, 4, 3};
      INFO(describe(c));
      const gift::TensorPlan plan = plan_of(c);
      Ranks ranks("cpu", plan), flipped("cpu", plan_of(c, altered(*plan.basis, true, false))),
          reordered("cpu", plan_of(c, altered(*plan.basis, false, true)));
      Doubles history_a(static_cast<std::size_t>(c.rows * c.cols)), history_d = history_a;
      for (std::uint64_t t = 0; t < 3; ++t) {
        const std::vector<Floats> inputs = inputs_of(c, 10 * t + 9);
        const StepResult a = ranks.step(inputs), b = flipped.step(inputs), d = reordered.step(inputs);
        CHECK(a.outputs == b.outputs);
        CHECK(ranks.residual == flipped.residual);
        CHECK(ranks.owner == flipped.owner);
        Doubles sum_a = decoded_sum(ranks.plan(), a), sum_d = decoded_sum(reordered.plan(), d);
        const Doubles left_a = outstanding(ranks), left_d = outstanding(reordered);
        const double largest = std::max(max_abs(sum_a), max_abs(left_a));
        // Earlier steps' rounding is in the residuals, so the allowance is that of all steps so far, on both sides.
        const double allowed = 2 * static_cast<double>(t + 1) * rounding_allowance(plan, 2 * largest);
        double gap = 0, decoded_gap = 0;
        for (std::size_t i = 0; i < sum_a.size(); ++i) {
          history_a[i] += sum_a[i], history_d[i] += sum_d[i];
          gap = std::max(gap, std::abs(history_a[i] + left_a[i] - history_d[i] - left_d[i]));
          decoded_gap = std::max(decoded_gap, std::abs(sum_a[i] - sum_d[i]));
        }
        INFO("step " << t << " decoded + residual differ by " << gap << ", allowed " << allowed << ", decoded alone "
                     << decoded_gap);
        CHECK(gap <= allowed);
      }
    }
  }
}
