// Chains of fused multiply-adds, many outputs at once. One function an instruction set, marked with the set it needs and called
// only where the processor has it, so the file is compiled with no flags of its own.
#include <algorithm>
#include <cmath>

#include "fast_transform.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gift::fast {
namespace {

void chains_scalar(const ChainProduct& p) noexcept {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t c = 0; c < p.cols; ++c) {
      float chain = p.out[i * p.out_row + c];
      for (std::int64_t k = 0; k < p.depth; ++k) {
        chain = std::fma(p.sign * p.a[i * p.a_row + k * p.a_step], p.b[k * p.b_row + c], chain);
      }
      p.out[i * p.out_row + c] = chain;
    }
  }
}

#if defined(__x86_64__)

constexpr std::int64_t depth_block = 256;  // rows of b that stay in the cache while all rows of a pass by

/// `Rows` rows of out, up to 32 columns: two vectors a row. Lanes beyond the width are masked, neither read nor written.
template <int Rows>
__attribute__((target("avx512f"))) void tile_avx512(const ChainProduct& p, std::int64_t i, std::int64_t c, std::int64_t k_begin,
                                                    std::int64_t k_end) noexcept {
  const std::int64_t width = std::min<std::int64_t>(32, p.cols - c);
  const std::uint32_t lanes = width == 32 ? 0xffffffffu : (1u << width) - 1u;
  const auto m0 = static_cast<__mmask16>(lanes & 0xffffu), m1 = static_cast<__mmask16>(lanes >> 16);
  __m512 chain[Rows][2];
  for (int row = 0; row < Rows; ++row) {
    const float* out = p.out + (i + row) * p.out_row + c;
    chain[row][0] = _mm512_maskz_loadu_ps(m0, out);
    chain[row][1] = _mm512_maskz_loadu_ps(m1, out + 16);
  }
  for (std::int64_t k = k_begin; k < k_end; ++k) {
    const float* b = p.b + k * p.b_row + c;
    const __m512 b0 = _mm512_maskz_loadu_ps(m0, b), b1 = _mm512_maskz_loadu_ps(m1, b + 16);
    for (int row = 0; row < Rows; ++row) {
      const __m512 a = _mm512_set1_ps(p.sign * p.a[(i + row) * p.a_row + k * p.a_step]);
      chain[row][0] = _mm512_fmadd_ps(a, b0, chain[row][0]);
      chain[row][1] = _mm512_fmadd_ps(a, b1, chain[row][1]);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    float* out = p.out + (i + row) * p.out_row + c;
    _mm512_mask_storeu_ps(out, m0, chain[row][0]);
    _mm512_mask_storeu_ps(out + 16, m1, chain[row][1]);
  }
}

/// `Rows` rows of out, up to 16 columns.
template <int Rows>
__attribute__((target("avx2,fma"))) void tile_avx2(const ChainProduct& p, std::int64_t i, std::int64_t c, std::int64_t k_begin,
                                                   std::int64_t k_end) noexcept {
  const int width = static_cast<int>(std::min<std::int64_t>(16, p.cols - c));
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i m0 = _mm256_cmpgt_epi32(_mm256_set1_epi32(width), lane);
  const __m256i m1 = _mm256_cmpgt_epi32(_mm256_set1_epi32(width - 8), lane);
  __m256 chain[Rows][2];
  for (int row = 0; row < Rows; ++row) {
    const float* out = p.out + (i + row) * p.out_row + c;
    chain[row][0] = _mm256_maskload_ps(out, m0);
    chain[row][1] = _mm256_maskload_ps(out + 8, m1);
  }
  for (std::int64_t k = k_begin; k < k_end; ++k) {
    const float* b = p.b + k * p.b_row + c;
    const __m256 b0 = _mm256_maskload_ps(b, m0), b1 = _mm256_maskload_ps(b + 8, m1);
    for (int row = 0; row < Rows; ++row) {
      const __m256 a = _mm256_set1_ps(p.sign * p.a[(i + row) * p.a_row + k * p.a_step]);
      chain[row][0] = _mm256_fmadd_ps(a, b0, chain[row][0]);
      chain[row][1] = _mm256_fmadd_ps(a, b1, chain[row][1]);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    float* out = p.out + (i + row) * p.out_row + c;
    _mm256_maskstore_ps(out, m0, chain[row][0]);
    _mm256_maskstore_ps(out + 8, m1, chain[row][1]);
  }
}

using Tile = void (*)(const ChainProduct&, std::int64_t, std::int64_t, std::int64_t, std::int64_t) noexcept;

/// All of a product by tiles of `tile_rows` x `tile_cols`; what is left of the rows goes one by one.
void by_tiles(const ChainProduct& p, Tile tile, Tile one_row, std::int64_t tile_rows, std::int64_t tile_cols) noexcept {
  for (std::int64_t k = 0; k < p.depth; k += depth_block) {
    const std::int64_t k_end = std::min(p.depth, k + depth_block);
    for (std::int64_t c = 0; c < p.cols; c += tile_cols) {
      std::int64_t i = 0;
      for (; i + tile_rows <= p.rows; i += tile_rows) tile(p, i, c, k, k_end);
      for (; i < p.rows; ++i) one_row(p, i, c, k, k_end);
    }
  }
}

#endif

}  // namespace

bool supported(Path path) noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (path == Path::avx512) return __builtin_cpu_supports("avx512f");
  if (path == Path::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return path == Path::scalar;
}

Path best_path() noexcept {
  static const Path best = supported(Path::avx512) ? Path::avx512 : supported(Path::avx2) ? Path::avx2 : Path::scalar;
  return best;
}

const char* path_name(Path path) noexcept {
  return path == Path::avx512 ? "AVX-512F" : path == Path::avx2 ? "AVX2 and FMA" : "scalar";
}

void chain_product(Path path, const ChainProduct& p) noexcept {
#if defined(__x86_64__)
  if (path == Path::avx512) return by_tiles(p, tile_avx512<8>, tile_avx512<1>, 8, 32);
  if (path == Path::avx2) return by_tiles(p, tile_avx2<4>, tile_avx2<1>, 4, 16);
#endif
  static_cast<void>(path);
  chains_scalar(p);
}

}  // namespace gift::fast
