// The transforms of the specification, one output after the other: every number is one chain of fused multiply-adds in the order
// of SPEC section 5. std::fma is exact in its single rounding with or without hardware for it, so these bytes are the same on any
// processor (payloads of NaN aside, which no format carries). Nothing here allocates.
#include "ref_transform.hpp"

#include <algorithm>
#include <cmath>

#include "ref_codec.hpp"

namespace gift::ref {
namespace {

/// Exponent k of a block of 2^k.
int log2_of(std::int32_t block) noexcept {
  int k = 0;
  while ((std::int32_t{1} << k) < block) ++k;
  return k;
}

void butterflies(float* x, std::int32_t block) noexcept {
  for (std::int32_t h = 1; h < block; h *= 2) {
    for (std::int32_t start = 0; start < block; start += 2 * h) {
      for (std::int32_t i = start; i < start + h; ++i) {
        const float a = x[i], b = x[i + h];
        x[i] = a + b;
        x[i + h] = a - b;
      }
    }
  }
}

void butterflies_and_scale(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block, float scale) noexcept {
  for (std::int64_t start = 0; start < rows * cols; start += block) {
    butterflies(x + start, block);
    for (std::int32_t i = 0; i < block; ++i) x[start + i] *= scale;
  }
}

}  // namespace

void project_right(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int32_t j = 0; j < r; ++j) {
      float chain = 0.0f;
      for (std::int64_t k = 0; k < cols; ++k) chain = std::fma(x[i * cols + k], u[k * r + j], chain);
      s[i * r + j] = chain;
    }
  }
}

void project_left(const float* x, std::int64_t rows, std::int64_t cols, const float* u, std::int32_t r, float* s) noexcept {
  for (std::int32_t j = 0; j < r; ++j) {
    for (std::int64_t c = 0; c < cols; ++c) {
      float chain = 0.0f;
      for (std::int64_t k = 0; k < rows; ++k) chain = std::fma(u[k * r + j], x[k * cols + c], chain);
      s[j * cols + c] = chain;
    }
  }
}

void add_outer_right(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int32_t r,
                     float sign) noexcept {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < cols; ++k) {
      float chain = x[i * cols + k];
      for (std::int32_t j = 0; j < r; ++j) chain = std::fma(sign * s[i * r + j], u[k * r + j], chain);
      x[i * cols + k] = chain;
    }
  }
}

void add_outer_left(float* x, std::int64_t rows, std::int64_t cols, const float* s, const float* u, std::int64_t first_row,
                    std::int32_t r, float sign) noexcept {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t c = 0; c < cols; ++c) {
      float chain = x[i * cols + c];
      for (std::int32_t j = 0; j < r; ++j) chain = std::fma(u[(first_row + i) * r + j], sign * s[j * cols + c], chain);
      x[i * cols + c] = chain;
    }
  }
}

void scale_columns(float* s, std::int64_t rows, std::int32_t r, const float* d) noexcept {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int32_t j = 0; j < r; ++j) s[i * r + j] *= d[j];
  }
}

void scale_rows(float* s, std::int32_t r, std::int64_t cols, const float* d) noexcept {
  for (std::int32_t j = 0; j < r; ++j) {
    for (std::int64_t c = 0; c < cols; ++c) s[j * cols + c] *= d[j];
  }
}

float column_sign(std::int64_t column) noexcept {
  const std::uint32_t counter[4] = {0, 0, 0, 0};
  std::uint32_t words[4];
  philox4x32(counter, static_cast<std::uint64_t>(column), words);
  return (words[0] & 1u) != 0 ? -1.0f : 1.0f;
}

void apply_column_signs(float* x, std::int64_t rows, std::int64_t cols) noexcept {
  constexpr std::int64_t piece = 256;  // signs are drawn once a column, not once an element
  float signs[piece];
  for (std::int64_t begin = 0; begin < cols; begin += piece) {
    const std::int64_t count = std::min(piece, cols - begin);
    for (std::int64_t c = 0; c < count; ++c) signs[c] = column_sign(begin + c);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < count; ++c) x[i * cols + begin + c] *= signs[c];
    }
  }
}

HadamardScales hadamard_scales(std::int32_t block) noexcept {
  const int k = log2_of(block);
  return {std::ldexp(1.0f, -((k + 1) / 2)), std::ldexp(1.0f, -(k / 2))};
}

void hadamard_forward(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept {
  apply_column_signs(x, rows, cols);
  butterflies_and_scale(x, rows, cols, block, hadamard_scales(block).forward);
}

void hadamard_inverse(float* x, std::int64_t rows, std::int64_t cols, std::int32_t block) noexcept {
  butterflies_and_scale(x, rows, cols, block, hadamard_scales(block).back);
  apply_column_signs(x, rows, cols);
}

}  // namespace gift::ref
