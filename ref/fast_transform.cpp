// Fast transforms: products as blocks of chains, Hadamard four numbers at a time. How blocks are cut changes where a chain waits
// in memory between two pieces, which is exact, and never its order.
#include "fast_transform.hpp"

#include <algorithm>
#include <cstring>

#include "ref_transform.hpp"

namespace gift::fast {
namespace {

typedef float Four __attribute__((vector_size(16)));

Four load(const float* x) noexcept {
  Four v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}
void store(float* x, Four v) noexcept { std::memcpy(x, &v, sizeof(v)); }

/// Stages h = 1 and h = 2 inside four numbers. Multiplying by -1 and adding is the subtraction of the reference, bit for bit.
Four first_two_stages(Four v) noexcept {
  constexpr Four odd = {1, -1, 1, -1}, upper = {1, 1, -1, -1};
  v = __builtin_shufflevector(v, v, 0, 0, 2, 2) + odd * __builtin_shufflevector(v, v, 1, 1, 3, 3);
  return __builtin_shufflevector(v, v, 0, 1, 0, 1) + upper * __builtin_shufflevector(v, v, 2, 3, 2, 3);
}

void butterflies(float* x, std::int32_t block, float scale) noexcept {
  for (std::int32_t i = 0; i < block; i += 4) store(x + i, first_two_stages(load(x + i)));
  for (std::int32_t h = 4; h < block; h *= 2) {
    for (std::int32_t start = 0; start < block; start += 2 * h) {
      for (std::int32_t i = start; i < start + h; i += 4) {
        const Four a = load(x + i), b = load(x + i + h);
        store(x + i, a + b);
        store(x + i + h, a - b);
      }
    }
  }
  for (std::int32_t i = 0; i < block; i += 4) store(x + i, load(x + i) * scale);
}

void all_butterflies(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block, float scale) noexcept {
  for (std::int64_t start = 0; start < rows * cols; start += block) butterflies(x + start, block, scale);
}

}  // namespace

void hadamard_forward(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept {
  if (block < 4) return ref::hadamard_forward(x, rows, cols, block);
  ref::apply_column_signs(x, rows, cols);
  all_butterflies(x, rows, cols, block, ref::hadamard_scales(block).forward);
}

void hadamard_inverse(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept {
  if (block < 4) return ref::hadamard_inverse(x, rows, cols, block);
  all_butterflies(x, rows, cols, block, ref::hadamard_scales(block).back);
  ref::apply_column_signs(x, rows, cols);
}

void project_right(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept {
  std::fill_n(s, rows * r, 0.0f);
  chain_product(best_path(), {rows, r, cols, x, cols, 1, u, r, s, r, 1.0f});
}

void project_left(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept {
  std::fill_n(s, r * cols, 0.0f);
  chain_product(best_path(), {r, cols, rows, u, 1, r, x, cols, s, cols, 1.0f});
}

void add_outer_left(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int64_t first_row,
                    std::int32_t r, float sign) noexcept {
  chain_product(best_path(), {rows, cols, r, u + first_row * r, r, 1, s, cols, x, cols, sign});
}

void add_outer_right(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int32_t r,
                     float sign) noexcept {
  // The outputs of a row run along the rows of U, so a tile of U is turned over first.
  constexpr std::int64_t tile = 64;
  float turned[tile * tile];
  const Path path = best_path();
  for (std::int64_t c0 = 0; c0 < cols; c0 += tile) {
    const std::int64_t width = std::min(tile, cols - c0);
    for (std::int64_t j0 = 0; j0 < r; j0 += tile) {
      const std::int64_t depth = std::min(tile, r - j0);
      for (std::int64_t c = 0; c < width; ++c) {
        for (std::int64_t j = 0; j < depth; ++j) turned[j * tile + c] = u[(c0 + c) * r + j0 + j];
      }
      chain_product(path, {rows, width, depth, s + j0, r, 1, turned, tile, x + c0, cols, sign});
    }
  }
}

}  // namespace gift::fast
