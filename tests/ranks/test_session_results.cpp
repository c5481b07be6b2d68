// What sessions compute: equal bytes on all ranks, equal bytes on every run, equal to the codec called rank by rank, and right
// where the right sum is known.
#include <cmath>
#include <cstring>
#include <thread>

#include "catch.hpp"
#include "rank_threads.hpp"
#include "ref_codec.hpp"
#include "session_cases.hpp"

using namespace gift;
using namespace gift::tests;

namespace {

std::vector<Outcome> run_all(const World& world, int ranks, int steps) {
  std::vector<Outcome> out(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank, Transport& t) { out[static_cast<std::size_t>(rank)] = run_session(world, t, steps); });
  return out;
}

/// One tensor of FP32 values through a session of `ranks`; values(rank, i) is rank's gradient. Result of rank 0, all others
/// equal.
std::vector<float> reduce_values(const Recipe& recipe, const std::vector<std::int64_t>& shape, int ranks,
                                 const std::function<float(int, std::int64_t)>& values) {
  World world;
  world.recipe = recipe;
  world.tensors = {{"w", shape, Dtype::f32}};
  std::vector<std::vector<float>> out(static_cast<std::size_t>(ranks));
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank, Transport& t) {
    const auto me = static_cast<std::size_t>(rank);
    std::vector<float>& data = out[me];
    data.resize(static_cast<std::size_t>(element_count(world.tensors[0])));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = values(rank, static_cast<std::int64_t>(i));
    Result<Plan> plan = Plan::make(world.recipe, world.tensors, ranks, {});
    if (!plan.ok()) return void(errors[me] = plan.status().message());
    Result<std::unique_ptr<Session>> session = Session::open(plan.value(), t);
    if (!session.ok()) return void(errors[me] = session.status().message());
    const std::vector<TensorBuffer> buffers = {{0, data.data(), static_cast<std::int64_t>(data.size())}};
    if (Status s = session.value()->reduce(buffers); !s.ok()) return void(errors[me] = s.message());
    if (Result<ReduceReport> r = session.value()->wait(); !r.ok()) errors[me] = r.status().message();
  });
  for (std::size_t r = 0; r < out.size(); ++r) {
    REQUIRE(errors[r] == "");
    REQUIRE(std::memcmp(out[r].data(), out[0].data(), 4 * out[0].size()) == 0);
  }
  return out[0];
}

Recipe recipe_of(const std::string& format, ReduceOp op) {
  Recipe recipe;
  recipe.format = parse_format(format).value();
  recipe.op = op;
  recipe.exempt_below = 0;
  return recipe;
}

}  // namespace

TEST_CASE("every format and geometry: replicas equal, and equal to the codec in rank order, bit for bit", "[ranks][session]") {
  int compared = 0;
  for (const std::string& format : all_formats())
    for (const GeometrySpec& geometry : all_geometries()) {
      if (format == "fp32" && geometry.kind != GeometryKind::euclidean) continue;
      const bool feedback = (compared % 3) != 0;
      const ReduceOp op = compared % 2 ? ReduceOp::mean : ReduceOp::sum;
      const int ranks = std::vector<int>{1, 2, 3, 4, 7}[static_cast<std::size_t>(compared % 5)];
      INFO(format << ", " << geometry_name(geometry.kind) << " " << side_name(geometry.side) << ", feedback " << feedback
                  << ", ranks " << ranks);
      const World world = make_world(format, geometry, feedback, op);
      const std::vector<Outcome> got = run_all(world, ranks, 3), want = run_reference(world, ranks, 3);
      REQUIRE(got[0].error == "");
      REQUIRE(want[0].error == "");
      for (std::size_t r = 0; r < got.size(); ++r) {
        REQUIRE(got[r] == want[r]);
        REQUIRE(got[r].results == got[0].results);
      }
      ++compared;
    }
  CHECK(compared == 1 + 9 * 8);
}

TEST_CASE("1 to 15 ranks, repeated: the same bytes", "[ranks][session]") {
  const World world = make_world("nvfp4", all_geometries().back(), true, ReduceOp::mean);
  for (const int ranks : {1, 2, 3, 4, 7, 15}) {
    const std::vector<Outcome> first = run_all(world, ranks, 2), second = run_all(world, ranks, 2);
    for (std::size_t r = 0; r < first.size(); ++r) {
      INFO("world " << ranks << ", rank " << r);
      REQUIRE(first[r].error == "");
      REQUIRE(first[r] == second[r]);
      REQUIRE(first[r].results == first[0].results);
    }
  }
}

TEST_CASE("negative control: a plain BF16 sum has other bytes than the compressed one", "[ranks][session]") {
  const GeometrySpec euclidean;
  const World compressed = make_world("e4m3", euclidean, false, ReduceOp::sum),
              plain = make_world("bf16", euclidean, false, ReduceOp::sum);
  const Outcome a = run_all(compressed, 3, 1)[0], b = run_all(plain, 3, 1)[0];
  REQUIRE(a.error == "");
  REQUIRE(b.error == "");
  CHECK(a.results[0][0] != b.results[0][0]);
  CHECK(a.results[0][5] == b.results[0][5]);  // "tiny" is exempt: BF16 in both
  CHECK(a.reports[0].bytes_sent < b.reports[0].bytes_sent);
}

TEST_CASE("BF16 and FP16 buffers, at odd addresses, both operations", "[ranks][session]") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32})
    for (const ReduceOp op : {ReduceOp::mean, ReduceOp::sum}) {
      const World world = make_world("e4m3:row", all_geometries()[5], true, op, dtype);
      const std::vector<Outcome> want = run_reference(world, 3, 1);
      REQUIRE(want[0].error == "");
      std::vector<std::string> errors(3);
      run_ranks(3, [&](int rank, Transport& t) {
        Buffers data = gradients(world, rank, 0);
        Buffers shifted;
        std::vector<TensorBuffer> buffers;
        for (std::size_t i = 0; i < data.size(); ++i) {
          shifted.emplace_back(data[i].size() + 3, std::byte{0xA5});
          std::copy(data[i].begin(), data[i].end(), shifted[i].begin() + 1);
        }
        for (std::size_t i = 0; i < data.size(); ++i)
          buffers.push_back({static_cast<std::int64_t>(i), shifted[i].data() + 1, element_count(world.tensors[i])});
        std::string& error = errors[static_cast<std::size_t>(rank)];
        Result<std::unique_ptr<Session>> session =
            Session::open(Plan::make(world.recipe, world.tensors, 3, world.bases).value(), t);
        if (!session.ok()) return void(error = session.status().message());
        if (Status s = session.value()->reduce(buffers); !s.ok()) return void(error = s.message());
        if (Result<ReduceReport> r = session.value()->wait(); !r.ok()) return void(error = r.status().message());
        for (std::size_t i = 0; i < data.size(); ++i) {
          const auto& bytes = shifted[i];
          if (!std::equal(bytes.begin() + 1, bytes.end() - 2, want[0].results[0][i].begin()))
            error += world.tensors[i].name + " differs; ";
          if (bytes[0] != std::byte{0xA5} || bytes[bytes.size() - 1] != std::byte{0xA5} ||
              bytes[bytes.size() - 2] != std::byte{0xA5})
            error += world.tensors[i].name + ": guard bytes overwritten; ";
        }
      });
      for (const std::string& error : errors) CHECK(error == "");
    }
}

TEST_CASE("sums that are known exactly come out exactly", "[ranks][session]") {
  for (const int ranks : {1, 2, 3, 4, 7, 15}) {
    INFO("world " << ranks);
    // Integers: FP32 and BF16 hold every partial sum.
    for (const std::string format : {"fp32", "bf16"}) {
      const auto value = [](int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank) % 9 - 4); };
      const std::vector<float> sum = reduce_values(recipe_of(format, ReduceOp::sum), {37, 5}, ranks, value);
      int wrong = 0;
      for (std::int64_t i = 0; i < 37 * 5; ++i) {
        float want = 0;
        for (int r = 0; r < ranks; ++r) want += value(r, i);
        wrong += sum[static_cast<std::size_t>(i)] != want;
      }
      CHECK(wrong == 0);
    }
    // E4M3: every row is one rank's, with amax 7 and so a scale of 64; the integers up to 7 are codes.
    const auto value = [ranks](int rank, std::int64_t i) {
      return i / 16 % ranks == rank ? static_cast<float>(i % 16 == 0 ? 7 : i % 16 % 8) : 0.0F;
    };
    for (const std::string format : {"e4m3:row", "e4m3:block:16", "e5m2:block:1", "mxfp8"}) {
      INFO(format);
      const std::vector<float> sum = reduce_values(recipe_of(format, ReduceOp::sum), {31, 16}, ranks, value);
      int wrong = 0;
      for (std::int64_t i = 0; i < 31 * 16; ++i)
        wrong += sum[static_cast<std::size_t>(i)] != (i % 16 == 0 ? 7.0F : static_cast<float>(i % 16 % 8));
      if (format != "e5m2:block:1") CHECK(wrong == 0);
    }
  }
}

TEST_CASE("all ones on two ranks make all twos, every element", "[ranks][session]") {
  for (const std::string format : {"e4m3", "e4m3:tensor", "e5m2", "mxfp8", "nvfp4", "mxfp4", "bf16", "fp32"}) {
    const std::vector<float> sum =
        reduce_values(recipe_of(format, ReduceOp::sum), {1, 64}, 2, [](int, std::int64_t) { return 1.0F; });
    const std::vector<float> mean =
        reduce_values(recipe_of(format, ReduceOp::mean), {1, 64}, 3, [](int, std::int64_t) { return 1.0F; });
    INFO(format);
    for (std::size_t i = 0; i < 64; ++i) {
      REQUIRE(std::fabs(sum[i] - 2.0F) <= 2 * 0x1p-22F);
      REQUIRE(std::fabs(mean[i] - 1.0F) <= 0x1p-22F);
    }
  }
}

TEST_CASE("small contributions are not lost next to a large one: sums are FP32, quantised once", "[ranks][session]") {
  for (const int ranks : {2, 8}) {
    const std::vector<float> sum = reduce_values(recipe_of("bf16", ReduceOp::sum), {16, 16}, ranks,
                                                 [](int rank, std::int64_t) { return rank == 0 ? 256.0F : 1.0F; });
    // In BF16 partial sums 256 + 1 would stay 256 for ever; the exact sum is 255 + ranks, rounded once.
    const float want = ref::from_bf16(ref::to_bf16(255.0F + static_cast<float>(ranks)));
    CHECK(sum[0] == want);
    CHECK(sum[255] == want);
  }
}

TEST_CASE("what goes in comes out or is in a residual", "[ranks][session]") {
  // sum over ranks of (W + R_before) = world * (result - owner's part) + sum of R_after, in the original coordinates.
  constexpr int ranks = 3, steps = 4;
  for (const std::string format : {"e4m3", "nvfp4", "mxfp4"})
    for (const GeometrySpec& geometry : all_geometries()) {
      if (geometry.kind == GeometryKind::whiten || geometry.kind == GeometryKind::hadamard)
        continue;  // residuals in other coordinates
      INFO(format << ", " << geometry_name(geometry.kind) << " " << side_name(geometry.side));
      const World world = make_world(format, geometry, true, ReduceOp::mean);
      const std::vector<Outcome> out = run_all(world, ranks, steps);
      REQUIRE(out[0].error == "");
      const Plan plan = Plan::make(world.recipe, world.tensors, ranks, world.bases).value();
      for (std::size_t t = 0; t < world.tensors.size(); ++t) {
        const TensorPlan& p = plan.tensors()[t];
        if (!p.error_feedback) continue;
        const auto n = static_cast<std::size_t>(p.elements());
        std::vector<double> in(n), came(n), size(n);
        for (int s = 0; s < steps; ++s) {
          for (int r = 0; r < ranks; ++r) {
            const std::vector<float> w = to_floats(gradients(world, r, s)[t], Dtype::f32);
            for (std::size_t i = 0; i < n; ++i)
              in[i] += static_cast<double>(w[i]) / ranks, size[i] += std::fabs(static_cast<double>(w[i]));
          }
          const std::vector<float> y = to_floats(out[0].results[static_cast<std::size_t>(s)][t], Dtype::f32);
          for (std::size_t i = 0; i < n; ++i) came[i] += static_cast<double>(y[i]);
        }
        for (std::size_t r = 0; r < ranks; ++r) {
          for (std::size_t i = 0; i < n; ++i) came[i] += static_cast<double>(out[r].residuals[t][i]) / ranks;
          const auto begin = static_cast<std::size_t>(p.leg1[r].row_begin * p.cols);
          for (std::size_t i = 0; i < out[r].owner_residuals[t].size(); ++i)
            came[begin + i] += static_cast<double>(out[r].owner_residuals[t][i]);
        }
        double worst = 0, scale = 0;
        for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::fabs(in[i] - came[i])), scale = std::max(scale, size[i]);
        INFO(world.tensors[t].name << ": worst " << worst << ", scale " << scale);
        CHECK(worst <= scale * 0x1p-20);
      }
    }
}

TEST_CASE("bytes are counted as the plan says", "[ranks][session]") {
  const World world = make_world("e4m3", all_geometries().back(), true, ReduceOp::mean);
  for (const int ranks : {1, 2, 4}) {
    const std::vector<Outcome> out = run_all(world, ranks, 1);
    REQUIRE(out[0].error == "");
    double total = 0;
    for (const Outcome& o : out) total += static_cast<double>(o.reports[0].bytes_sent);
    const double planned = Plan::make(world.recipe, world.tensors, ranks, world.bases)->wire_bytes_per_rank() * ranks;
    CHECK(std::fabs(total - planned) <= 1e-9 * planned);
  }
}

TEST_CASE("many sessions in several threads do not disturb each other", "[ranks][session]") {
  const World world = make_world("nvfp4:sr", all_geometries()[7], true, ReduceOp::mean);
  const std::vector<Outcome> want = run_reference(world, 3, 2);
  std::vector<std::vector<Outcome>> got(4);
  std::vector<std::thread> groups;
  for (auto& g : got) groups.emplace_back([&] { g = run_all(world, 3, 2); });
  for (std::thread& g : groups) g.join();
  for (const auto& g : got)
    for (std::size_t r = 0; r < 3; ++r) CHECK(g[r] == want[r]);
}
