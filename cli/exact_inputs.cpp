// Exact inputs: why they are exact is said format by format below, and a test runs them through every format.
#include "exact_inputs.hpp"

#include <cmath>

namespace gift::cli {
namespace {

/// Elements along a row that share a rank; a multiple or a divisor of every scale block, so that no block sees a part of a
/// pattern.
std::int64_t exact_block(const FormatSpec& format) noexcept {
  switch (format.format) {
    case Format::nvfp4:
      return 16;
    case Format::mxfp8:
    case Format::mxfp4:
      return 32;
    case Format::e4m3:
    case Format::e5m2:
      return format.granularity == Granularity::block ? format.block : 64;
    case Format::fp32:
    case Format::bf16:
      break;
  }
  return 64;
}

std::uint64_t mix(std::uint64_t z) noexcept {  // SplitMix64's finaliser
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

bool has_exact_inputs(const FormatSpec& format) noexcept {
  return !(format.format == Format::nvfp4 && format.rounding == Rounding::sr);
}

float exact_sum(const FormatSpec& format, std::int64_t cols, std::int64_t index) noexcept {
  const std::int64_t col = index % cols;
  const bool first = col % exact_block(format) == 0;
  const std::uint64_t random = mix(static_cast<std::uint64_t>(index));
  const float sign = random & 1 ? -1.0F : 1.0F;
  // E2M1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6.
  constexpr float fp4[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  switch (format.format) {
    case Format::nvfp4:
      // Row maximum 21 * 2^k: S = 128 * 2^-k, block scale 448 or 224, d = 3.5 * 2^k; values are E2M1 codes times 3.5.
      return first ? 21.0F : sign * 3.5F * fp4[random >> 1 & 7];
    case Format::mxfp4:
      // Block maximum 6 * 2^k: E8M0 is 2^k.
      return first ? 6.0F : sign * fp4[random >> 1 & 7];
    case Format::fp32:
    case Format::bf16:
    case Format::e4m3:
    case Format::e5m2:
    case Format::mxfp8:
      // Maximum 7 * 2^k: 448 = 7 * 2^6 and 57344 = 7 * 2^13, so scales are powers of two, and integers up to 7 have three bits.
      return first ? 7.0F : sign * static_cast<float>(random >> 1 & 7);
  }
  return 0;
}

float exact_input(const FormatSpec& format, std::int64_t cols, std::int64_t index, int rank, int world) noexcept {
  const float sum = exact_sum(format, cols, index);
  if (world == 1) return sum;
  const std::int64_t block = exact_block(format), blocks_a_row = (cols + block - 1) / block;
  const auto owner = static_cast<int>((index / cols * blocks_a_row + index % cols / block) % world);
  if (rank == owner) return 2 * sum;
  return rank == (owner + 1) % world ? -sum : 0.0F;
}

std::int64_t count_wrong(const FormatSpec& format, std::int64_t cols, const std::vector<float>& result, float share) noexcept {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < result.size(); ++i)
    wrong += !(result[i] == exact_sum(format, cols, static_cast<std::int64_t>(i)) / share);
  return wrong;
}

float noisy_input(std::int64_t index, int rank) noexcept {
  std::uint64_t state = mix(static_cast<std::uint64_t>(index) * 64 + static_cast<std::uint64_t>(rank));
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    state = mix(state);
    sum += static_cast<double>(state >> 11) * 0x1p-53;
  }
  return static_cast<float>(1e-3 * (sum - 6));
}

}  // namespace gift::cli
