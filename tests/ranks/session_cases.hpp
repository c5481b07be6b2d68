// Inputs for session tests: plans of awkward shapes, gradients, bases, and the result that all ranks must reach, computed rank by
// rank in one thread by calling the codec directly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gift/codec.hpp"
#include "gift/session.hpp"

namespace gift::tests {

/// A small generator with equal output everywhere (std::normal_distribution is not): SplitMix64, and sums of uniforms.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t word();
  double uniform();  ///< [0, 1)
  double bell();     ///< about normal, variance 1

 private:
  std::uint64_t state_;
};

/// U: dim x rank, orthonormal.
SideBasis random_side(std::int64_t dim, std::int32_t rank, std::uint64_t seed);
/// A sealed basis for a rows x cols matrix; null for kinds that need none.
LayerBasisPtr random_basis(const GeometrySpec& spec, std::int64_t rows, std::int64_t cols, std::uint64_t seed);

/// All geometries that need distinguishing, rank 3.
std::vector<GeometrySpec> all_geometries();
std::vector<std::string> all_formats();

/// What one test runs: tensors of every kind, those named "mapped..." under the geometry.
struct World {
  Recipe recipe;
  std::vector<TensorDesc> tensors;
  BasisSet bases;
};
World make_world(const std::string& format, const GeometrySpec& geometry, bool error_feedback, ReduceOp op,
                 Dtype dtype = Dtype::f32);

/// Gradients of one rank and step, one buffer of bytes a tensor in the tensor's dtype; anisotropic, with zero rows.
using Buffers = std::vector<std::vector<std::byte>>;
Buffers gradients(const World& world, int rank, int step);
std::vector<TensorBuffer> as_buffers(const World& world, Buffers& data);

/// What a run of several steps leaves on one rank.
struct Outcome {
  std::string error;
  std::vector<Buffers> results;                                ///< by step
  std::vector<std::vector<float>> residuals, owner_residuals;  ///< by tensor, after the last step
  std::vector<ReduceReport> reports;
  bool operator==(const Outcome& other) const {
    return error == other.error && results == other.results && same(residuals, other.residuals) &&
           same(owner_residuals, other.owner_residuals);
  }

 private:
  static bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);
};

/// `steps` reductions through a session.
Outcome run_session(const World& world, Transport& transport, int steps, const std::string& backend = "cpu");
/// The same for all ranks by the codec alone, in rank order, in this thread.
std::vector<Outcome> run_reference(const World& world, int ranks, int steps, const std::string& backend = "cpu");

std::int64_t element_count(const TensorDesc& tensor);
std::vector<float> to_floats(const std::vector<std::byte>& bytes, Dtype dtype);

}  // namespace gift::tests
