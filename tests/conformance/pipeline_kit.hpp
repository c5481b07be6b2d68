// What the pipeline tests share: inputs and bases by formula, every format and geometry, N simulated ranks over Codec, buffers
// with guards around them, and the coordinate maps once more in FP64 from their definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gift/codec.hpp"
#include "gift/plan.hpp"

namespace kit {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Numbers that depend on nothing but the seed and IEEE arithmetic.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  double uniform();  ///< [0, 1)
  float normal();    ///< sum of uniforms: bell-shaped, no libm

 private:
  std::uint64_t state_;
};

/// A gradient-like matrix: a few strong directions and noise, magnitudes over several binades.
Floats gradient(std::int64_t rows, std::int64_t cols, std::uint64_t seed);

/// dim x rank orthonormal columns in FP32 (Gram-Schmidt in FP64).
Floats orthonormal(std::int64_t dim, std::int32_t rank, std::uint64_t seed);

/// A sealed basis of random columns for a geometry; null for euclidean and hadamard.
gift::LayerBasisPtr make_basis(gift::GeometryKind kind, gift::Side side, std::int64_t rows, std::int64_t cols, std::int32_t rank,
                               std::uint64_t seed);

struct Case {
  std::string format = "e4m3";
  gift::GeometryKind kind = gift::GeometryKind::euclidean;
  gift::Side side = gift::Side::none;
  std::int64_t rows = 8, cols = 40;
  std::int32_t rank = 3;
  int world = 1;
  bool feedback = true;
  gift::ReduceOp op = gift::ReduceOp::mean;
  gift::Dtype dtype = gift::Dtype::f32;
  std::uint64_t basis_seed = 7;
};
std::string describe(const Case& c);
/// Fails the test if the plan is refused.
gift::TensorPlan plan_of(const Case& c);
gift::TensorPlan plan_of(const Case& c, gift::LayerBasisPtr basis);

const std::vector<std::string>& all_formats();  ///< every format, granularity and scale mode; "fp32" last
struct Map {
  gift::GeometryKind kind;
  gift::Side side;
};
const std::vector<Map>& all_maps();

/// Bytes with poison inside and guards on both sides; `shift` moves the start off its alignment.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t shift = 0, std::byte poison = std::byte{0x7F});
  std::byte* data() { return storage_.data() + start_; }
  const std::byte* data() const { return storage_.data() + start_; }
  std::size_t size() const { return bytes_; }
  bool intact() const;

 private:
  std::size_t bytes_, start_;
  Bytes storage_;
};

/// FP32 values in the bytes of a dtype (exact only where the dtype holds them), and back.
Bytes to_dtype(const Floats& values, gift::Dtype dtype);
Floats from_dtype(const std::byte* bytes, std::int64_t count, gift::Dtype dtype);

struct StepResult {
  std::vector<Bytes> outputs;  ///< one a rank, in the plan's dtype
  bool non_finite = false;
  std::vector<gift::EncodeStats> encoded, reduced;
  std::vector<std::vector<Bytes>> leg1;  ///< [sender][shard]
  std::vector<Bytes> leg2;               ///< [shard]
  std::vector<Floats> quantised;         ///< [shard]
  std::uint64_t overflowed = 0;
};

/// N ranks that carry the bytes themselves: encode on each, reduce of each shard, decode and commit (or roll back) on each.
class Ranks {
 public:
  Ranks(const std::string& backend, const gift::TensorPlan& plan, std::uint64_t seed = 1);
  /// inputs[r]: rank r's gradient in the plan's dtype. Checks every guard.
  StepResult step(const std::vector<Bytes>& inputs);
  StepResult step(const std::vector<Floats>& inputs);
  void set_plan(const gift::TensorPlan& plan) { plan_ = plan; }

  const gift::TensorPlan& plan() const { return plan_; }
  const gift::Codec& codec() const { return codec_; }
  std::vector<Floats> residual;  ///< [rank]
  std::vector<Floats> owner;     ///< [rank], own shard's rows
  std::size_t shift = 0;         ///< misalignment of every caller's buffer, in bytes
  std::byte poison{0x7F};

 private:
  void encode_all(const std::vector<Bytes>& inputs, StepResult& result, std::vector<std::vector<std::uint8_t>>& written);
  void reduce_all(StepResult& result, std::vector<Floats>& losses);

  gift::TensorPlan plan_;
  gift::Codec codec_;
  std::uint64_t seed_;
  std::uint32_t step_ = 0;
};

/// T and T^-1 of hadamard and whiten (identity for euclidean and deflate) in FP64, straight from SPEC section 3.
void map_fp64(const gift::TensorPlan& plan, Doubles& x, bool inverse);
Doubles widen(const Floats& x);
double max_abs(const Doubles& x);
/// All owners' residuals as one matrix.
Doubles owed(const Ranks& ranks);

}  // namespace kit
