// Private pieces of planning that plan.cpp, payload_layout.cpp and fingerprint.cpp share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gift/plan.hpp"

namespace gift {

/// Sizes are 64-bit and checked: false when a + b or a * b does not fit.
inline bool checked_add(std::int64_t a, std::int64_t b, std::int64_t& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}
inline bool checked_mul(std::int64_t a, std::int64_t b, std::int64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}

/// "[4, 8]"
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Fills leg1 and leg2 of a plan whose shape, format, geometry, basis, world and feedback are set.
Status lay_out(TensorPlan& tensor);

/// Resolves `tensor.geometry` against shape, format and basis, or says what does not fit.
Status resolve_geometry(TensorPlan& tensor);

/// Makes one TensorPlan out of a description and what was chosen for it; `id` stays 0.
Result<TensorPlan> plan_one(const TensorDesc& desc, const Choice& choice, const LayerBasisPtr& basis, ReduceOp op, int world);

/// XXH3-64 digests of the fingerprint.
std::uint64_t hash_shapes(const std::vector<TensorPlan>& tensors);
std::uint64_t hash_formats(const std::vector<TensorPlan>& tensors);
std::uint64_t hash_text(const std::string& text);
/// Low 64 bits of the hash of the bases that the plan uses; 0 if it uses none.
std::uint64_t hash_bases(const std::vector<TensorPlan>& tensors);

}  // namespace gift
