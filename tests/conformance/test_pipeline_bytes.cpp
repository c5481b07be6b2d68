// The bytes: the default backend against the reference, guards and poison, any alignment, odd shapes, the host's FPU settings.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

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

/// Everything that a step makes, bit for bit.
void check_same(const StepResult& a, const StepResult& b, const Ranks& x, const Ranks& y) {
  CHECK(a.leg1 == b.leg1);
  CHECK(a.leg2 == b.leg2);
  CHECK(a.outputs == b.outputs);
  CHECK(a.non_finite == b.non_finite);
  CHECK(a.overflowed == b.overflowed);
  const auto same = [](const std::vector<Floats>& p, const std::vector<Floats>& q) {
    if (p.size() != q.size()) return false;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i].size() != q[i].size()) return false;
      if (!p[i].empty() && std::memcmp(p[i].data(), q[i].data(), p[i].size() * sizeof(float)) != 0) return false;
    }
    return true;
  };
  CHECK(same(a.quantised, b.quantised));
  CHECK(same(x.residual, y.residual));
  CHECK(same(x.owner, y.owner));
  for (std::size_t i = 0; i < a.encoded.size(); ++i) {
    CHECK(a.encoded[i].saturated == b.encoded[i].saturated);
    CHECK(a.encoded[i].top_codes == b.encoded[i].top_codes);
    CHECK(a.encoded[i].bottom_codes == b.encoded[i].bottom_codes);
    CHECK(a.encoded[i].error_energy == b.encoded[i].error_energy);
    CHECK(a.encoded[i].energy == b.encoded[i].energy);
  }
}

struct Shape {
  std::int64_t rows, cols;
};
const std::vector<Shape>& odd_shapes() {
  static const std::vector<Shape> shapes = {{1, 1}, {1, 2},   {2, 7},   {1, 15},   {3, 16},  {1, 17}, {5, 31}, {4, 33},
                                            {7, 1}, {17, 33}, {2, 129}, {1, 1023}, {5, 461}, {40, 1}, {0, 16}, {3, 0}};
  return shapes;
}

}  // namespace

TEST_CASE("cpu and ref give the same bytes for every format, map, shape and rank count", "[pipeline][bytes]") {
  std::size_t steps = 0;
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      std::uint64_t turn = 0;
      for (const Shape& shape : odd_shapes()) {
        Case c{format, map.kind, map.side, shape.rows, shape.cols, 3, static_cast<int>(1 + turn % 4)};
        c.feedback = turn % 3 != 0;
        c.op = turn % 2 == 0 ? gift::ReduceOp::mean : gift::ReduceOp::sum;
        c.dtype = static_cast<gift::Dtype>(turn % 3);
        ++turn;
        INFO(describe(c));
        const gift::TensorPlan plan = plan_of(c);
        Ranks ref("ref", plan), cpu("cpu", plan);
        cpu.shift = 1;  // and on any address
        cpu.poison = std::byte{0xFF};
        for (std::uint64_t t = 0; t < 2; ++t) {
          const std::vector<Floats> inputs = inputs_of(c, 10 * t + turn);
          const StepResult a = ref.step(inputs), b = cpu.step(inputs);
          check_same(a, b, ref, cpu);
          for (const Bytes& output : a.outputs) CHECK(output == a.outputs[0]);
          ++steps;
        }
      }
    }
  }
  std::printf("cpu against ref: %zu steps over all formats, maps and %zu shapes\n", steps, odd_shapes().size());
}

TEST_CASE("the comparison of backends notices one different bit", "[pipeline][bytes]") {
  Case c{"e4m3", GeometryKind::deflate, Side::both, 8, 40, 3, 2};
  Ranks a("ref", plan_of(c)), b("cpu", plan_of(c));
  std::vector<Floats> inputs = inputs_of(c, 1);
  const StepResult first = a.step(inputs);
  inputs[1][17] *= 1.5f;
  const StepResult second = b.step(inputs);
  CHECK_FALSE(first.leg1 == second.leg1);
  CHECK_FALSE(first.outputs == second.outputs);
}

TEST_CASE("any alignment of the caller's buffers gives the same bytes", "[pipeline][bytes]") {
  for (const gift::Dtype dtype : {gift::Dtype::f32, gift::Dtype::bf16, gift::Dtype::f16}) {
    for (const std::string& format : {std::string("e4m3"), std::string("nvfp4"), std::string("mxfp8"), std::string("bf16")}) {
      Case c{format, GeometryKind::deflate, Side::both, 9, 35, 3, 2, true, gift::ReduceOp::mean, dtype};
      INFO(describe(c));
      const std::vector<Floats> inputs = inputs_of(c, 6);
      Ranks aligned("cpu", plan_of(c));
      const StepResult expected = aligned.step(inputs);
      const auto element = static_cast<std::size_t>(gift::dtype_bytes(dtype));
      for (const std::size_t shift : {std::size_t{1}, element, 2 * element, 3 * element, 4 * element, 8 * element}) {
        Ranks moved("cpu", plan_of(c));
        moved.shift = shift;
        const StepResult got = moved.step(inputs);
        check_same(expected, got, aligned, moved);
      }
    }
  }
}

TEST_CASE("what was in a buffer before never shows", "[pipeline][bytes]") {
  for (const std::string& format : all_formats()) {
    Case c{format, GeometryKind::euclidean, Side::none, 17, 33, 3, 3};
    Ranks a("cpu", plan_of(c)), b("cpu", plan_of(c));
    a.poison = std::byte{0x00};
    b.poison = std::byte{0x7F};
    const std::vector<Floats> inputs = inputs_of(c, 8);
    const StepResult x = a.step(inputs), y = b.step(inputs);
    INFO(describe(c));
    check_same(x, y, a, b);
  }
}

TEST_CASE("the host's FTZ, DAZ and rounding mode change no byte", "[pipeline][bytes]") {
#if defined(__SSE2__)
  for (const std::string& format : {std::string("e4m3"), std::string("nvfp4"), std::string("mxfp8"), std::string("fp32")}) {
    for (const Map& map : all_maps()) {
      if (format == "fp32" && map.kind != GeometryKind::euclidean) continue;
      Case c{format, map.kind, map.side, 6, 32, 2, 2};
      INFO(describe(c));
      std::vector<Floats> inputs = inputs_of(c, 2);
      for (Floats& x : inputs) {
        for (float& v : x) v *= 1e-37f;  // subnormal in part, and all of it after the quantiser
      }
      const gift::TensorPlan plan = plan_of(c);
      Ranks plain("cpu", plan), flushed("cpu", plan);
      const StepResult expected = plain.step(inputs);
      const unsigned int saved = _mm_getcsr();
      _mm_setcsr(saved | 0x8040u | 0x6000u);  // FTZ, DAZ, toward zero
      StepResult got = flushed.step(inputs);
      const unsigned int after = _mm_getcsr();
      _mm_setcsr(saved);
      CHECK((after & 0xE040u) == 0xE040u);  // the host's settings are given back
      check_same(expected, got, plain, flushed);
    }
  }
#else
  std::printf("SKIPPED: no MXCSR on this machine\n");
#endif
}

TEST_CASE("results do not depend on who owns what", "[pipeline][bytes]") {
  // One rank's gradient and zeros elsewhere: with scales that stay inside a row, cutting the rows differently changes nothing.
  for (const std::string& format :
       {std::string("e4m3"), std::string("e4m3:row"), std::string("mxfp8"), std::string("nvfp4"), std::string("e4m3:sr")}) {
    Case one{format, GeometryKind::deflate, Side::right, 12, 40, 3, 1, false, gift::ReduceOp::sum};
    std::vector<Floats> inputs = inputs_of(one, 3);
    Ranks alone("cpu", plan_of(one));
    const StepResult expected = alone.step(inputs);
    for (const int world : {2, 5, 15}) {
      Case many = one;
      many.world = world;
      inputs.resize(1);
      inputs.resize(static_cast<std::size_t>(world), Floats(inputs[0].size(), 0.0f));
      Ranks ranks("cpu", plan_of(many));
      INFO(describe(many));
      CHECK(ranks.step(inputs).outputs[0] == expected.outputs[0]);
    }
  }
}
