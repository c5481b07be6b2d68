// The transforms of ref_transform.hpp made fast: the same chains of fused multiply-adds, computed side by side for many outputs.
// No chain is split or reordered, so the bytes are those of the reference; the instruction set is chosen when the program runs.
#pragma once

#include <cstdint>

namespace gift::fast {

void project_right(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept;
void project_left(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept;
void add_outer_right(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int32_t r,
                     float sign) noexcept;
void add_outer_left(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int64_t first_row,
                    std::int32_t r, float sign) noexcept;
void hadamard_forward(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept;
void hadamard_inverse(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept;

/// What every product above comes down to: out_ic <- chain over k ascending of fma(sign * a_ik, b_kc, chain), started from
/// out_ic. a_ik is a[i * a_row + k * a_step], b_kc is b[k * b_row + c], out_ic is out[i * out_row + c]; strides in elements.
struct ChainProduct {
  std::int64_t rows = 0, cols = 0, depth = 0;  ///< of i, c and k
  const float* a = nullptr;
  std::int64_t a_row = 0, a_step = 0;
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* out = nullptr;
  std::int64_t out_row = 0;
  float sign = 1.0f;  ///< +1 or -1
};

enum class Path : std::uint8_t { scalar = 0, avx2 = 1, avx512 = 2 };
bool supported(Path path) noexcept;  ///< by this processor
Path best_path() noexcept;
const char* path_name(Path path) noexcept;  ///< "scalar", "AVX2 and FMA", "AVX-512F"
/// `path` must be supported.
void chain_product(Path path, const ChainProduct& product) noexcept;

}  // namespace gift::fast
