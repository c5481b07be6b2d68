// Inputs of `verify`: matrices and bases by formula, the same on every machine.
#include <bit>
#include <cmath>

#include "gift/basis.hpp"
#include "verify_internal.hpp"

namespace gift::verification {
namespace {

constexpr std::uint32_t subnormal_amax = 1;  // 1e-45
/// Magnitudes at which scales overflow, underflow or saturate: 1e-45, 1e-37, 5e-36, 7.8e-36, 1e30, 1e36, FLT_MAX.
const float extremes[] = {std::bit_cast<float>(subnormal_amax), 1e-37f, 5e-36f, 7.8e-36f, 1e30f, 1e36f,
                          std::bit_cast<float>(0x7f7fffffu)};

/// dim x rank orthonormal columns: Gram-Schmidt in FP64, twice, rounded once.
std::vector<float> orthonormal(std::int64_t dim, std::int32_t rank, std::uint64_t seed) {
  Random random(seed);
  const auto n = static_cast<std::size_t>(dim), r = static_cast<std::size_t>(rank);
  std::vector<std::vector<double>> columns(r, std::vector<double>(n));
  for (std::size_t j = 0; j < r; ++j) {
    std::vector<double>& v = columns[j];
    for (double& x : v) x = random.uniform();
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t k = 0; k < j; ++k) {
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i) dot += columns[k][i] * v[i];
        for (std::size_t i = 0; i < n; ++i) v[i] -= dot * columns[k][i];
      }
    }
    double square = 0;
    for (const double x : v) square += x * x;
    for (double& x : v) x /= std::sqrt(square);
  }
  std::vector<float> u(n * r);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < r; ++j) u[i * r + j] = static_cast<float>(columns[j][i]);
  }
  return u;
}

Status fill_side(const GeometrySpec& geometry, std::int64_t dim, std::int32_t rank, std::uint64_t seed, SideBasis& side) {
  side.dim = dim;
  side.rank = rank;
  side.u = orthonormal(dim, rank, seed);
  for (std::int32_t j = 0; j < rank; ++j) side.eigenvalues.push_back(10.0 / (j + 1));
  side.trace = 0.25 * static_cast<double>(dim - rank);
  for (const double l : side.eigenvalues) side.trace += l;
  if (geometry.kind != GeometryKind::whiten) return Status();
  return whiten_scales(side.eigenvalues, side.trace, dim, geometry.exponent, geometry.damping, side.d, side.d_inv);
}

/// A number within two places of the middle between two E4M3 codes, divided by `scale`.
float near_midpoint(Random& random, float scale) noexcept {
  const auto table = golden::intervals(Element::e4m3);
  // The highest bits of an interval are the last before the code changes; the largest code has no such end.
  const std::uint32_t border = table[random.bits() % (table.size() / 2 - 1)].highest;
  const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(border) / scale);
  return std::bit_cast<float>(bits + static_cast<std::uint32_t>(random.bits() % 5) - 2u);
}

/// Even rows: the first element of each block of 16 decides nvfp4's block scale. Odd rows: elements of an E4M3 row.
std::vector<float> midpoints(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float amax = std::ldexp(1.5f + 0.5f * random.uniform(), static_cast<int>(random.bits() % 40) - 20);
    const float scale = i % 2 == 0 ? 2688.0f / amax / 6.0f : 448.0f / amax;
    float lead = amax;
    for (std::int64_t j = 0; j < cols; ++j) {
      if (j % 16 == 0 || i % 2 == 1) lead = j == 0 ? amax : near_midpoint(random, scale);
      x.push_back(j % 16 == 0 || i % 2 == 1 ? lead : lead * random.uniform());
    }
  }
  return x;
}

}  // namespace

std::uint64_t Random::bits() noexcept {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545F4914F6CDD1Du;
}

float Random::uniform() noexcept {
  const auto signed_bits = static_cast<std::int32_t>(bits() >> 32);
  return static_cast<float>(signed_bits >> 8) * 0x1p-23f;  // 24 bits: exact
}

std::vector<float> filled(std::int64_t rows, std::int64_t cols, Fill fill, std::uint64_t seed) {
  if (fill == Fill::midpoints) return midpoints(rows, cols, seed);
  Random random(seed);
  std::vector<float> x;
  x.reserve(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    const float row_size = std::ldexp(1.0f, static_cast<int>((i * 5) % 11) - 5);
    const std::int64_t peak = cols > 0 ? static_cast<std::int64_t>(random.bits() % static_cast<std::uint64_t>(cols)) : 0;
    for (std::int64_t j = 0; j < cols; ++j) {
      const float u = random.uniform();
      float value = u * u * u * row_size;
      if (fill == Fill::extreme) {
        const float amax = extremes[static_cast<std::size_t>(i) % std::size(extremes)];
        value = j == peak ? amax : u * amax;
      }
      if (fill == Fill::zeros) {
        if (i % 3 == 0) value = 0.0f;
        if (i % 3 == 1 && j < 16) value = j % 2 == 0 ? -0.0f : 0.0f;
      }
      x.push_back(value);
    }
  }
  if (fill == Fill::non_finite && !x.empty()) {
    x[x.size() / 2] = std::bit_cast<float>(0x7fc00000u);
    x[x.size() / 3] = std::bit_cast<float>(0xff800000u);
  }
  return x;
}

Result<LayerBasisPtr> test_basis(const GeometrySpec& geometry, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  if (geometry.kind == GeometryKind::euclidean || geometry.kind == GeometryKind::hadamard) return LayerBasisPtr();
  auto basis = std::make_shared<LayerBasis>();
  basis->kind = geometry.kind;
  basis->side = geometry.side;
  basis->source = "verify";
  const auto rank = static_cast<std::int32_t>(std::min<std::int64_t>(geometry.rank, std::min(rows, cols)));
  if (has_right(geometry.side)) {
    if (Status s = fill_side(geometry, cols, rank, seed, basis->right); !s.ok()) return s;
  }
  if (has_left(geometry.side)) {
    if (Status s = fill_side(geometry, rows, rank, seed + 1, basis->left); !s.ok()) return s;
  }
  if (Status s = basis->seal(); !s.ok()) return s;
  return LayerBasisPtr(basis);
}

}  // namespace gift::verification
