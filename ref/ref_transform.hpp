// The transforms of the scalar reference in the fixed order of SPEC section 5: one FMA chain an output, from +0 or from the
// input.
#pragma once

#include <cstdint>

namespace gift::ref {

/// s (rows x r) = x (rows x cols) * u (cols x r): chain over cols ascending, from +0.
void project_right(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept;
/// s (r x cols) = u^T (r x rows) * x: chain over rows ascending, from +0. u is rows x r.
void project_left(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept;
/// x += sign * s u^T (right: s rows x r, u cols x r): chain over j ascending, from x. sign is +1 or -1 and is applied to s
/// (exact).
void add_outer_right(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int32_t r,
                     float sign) noexcept;
/// x += sign * u s (left: u rows x r, s r x cols). `first_row`: row of u that belongs to row 0 of x.
void add_outer_left(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int64_t first_row,
                    std::int32_t r, float sign) noexcept;
/// s_ij *= d_j (right) or s_ji *= d_j (left): one rounded multiply each.
void scale_columns(float* s, std::int64_t rows, std::int32_t r, const float* d) noexcept;
void scale_rows(float* s, std::int32_t r, std::int64_t cols, const float* d) noexcept;

/// Hadamard along each row: signs, butterflies h = 1, 2, 4, ... in natural order, then 2^-ceil(k/2). Inverse: butterflies,
/// 2^-floor(k/2), signs.
void hadamard_forward(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept;
void hadamard_inverse(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept;
/// -1 or +1: low bit of word 0 of Philox with counter 0 and the column as key.
float column_sign(std::int64_t column) noexcept;
void apply_column_signs(float* x, std::int64_t rows, std::int64_t cols) noexcept;
struct HadamardScales {
  float forward, back;  ///< 2^-ceil(k/2), 2^-floor(k/2)
};
HadamardScales hadamard_scales(std::int32_t block) noexcept;

}  // namespace gift::ref
