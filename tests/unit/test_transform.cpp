// Transforms: the order of every chain against an independent slow computation, the fast kernels byte by byte against the
// scalar ones, and what the maps have to keep: inverses, scales, signs.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "catch.hpp"
#include "fast_transform.hpp"
#include "ref_codec.hpp"
#include "ref_transform.hpp"

namespace {

using namespace gift;
using Floats = std::vector<float>;

/// Values over many binades, so that another order of summation gives other bits.
Floats values(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-6, 6);
  Floats x(count);
  for (float& v : x) v = std::ldexp(normal(engine), exponent(engine));
  return x;
}

/// a * b + c rounded once to FP32, by other means than an FMA instruction: the product is exact in double; the sum is made exact
/// in two doubles and rounded to odd, so that the last rounding is the only one.
float fused(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c;
  double sum = product + addend;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);
  if (error != 0.0 && (std::bit_cast<std::uint64_t>(sum) & 1u) == 0) {
    const bool up = (error > 0.0) == (sum > 0.0);
    sum = std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) + (up ? 1u : ~std::uint64_t{0}));
  }
  return static_cast<float>(sum);
}

bool same_bytes(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::size_t at(std::int64_t row, std::int64_t width, std::int64_t col) { return static_cast<std::size_t>(row * width + col); }

struct Shape {
  std::int64_t rows, cols;
  std::int32_t r;
};
const std::vector<Shape> shapes = {{1, 1, 1},    {1, 17, 3},   {7, 5, 3},   {16, 16, 8},   {33, 31, 16},  {5, 64, 31},
                                   {40, 65, 32}, {9, 129, 64}, {65, 9, 64}, {3, 300, 33},  {300, 3, 1},   {129, 70, 65},
                                   {8, 32, 32},  {12, 15, 15}, {2, 47, 48}, {513, 20, 17}, {20, 513, 130}};

void offset_copy(Floats& padded, const Floats& x, std::size_t offset) {
  padded.assign(x.size() + offset, 0.0f);
  std::copy(x.begin(), x.end(), padded.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

TEST_CASE("the emulated fused multiply-add is one", "[transform]") {
  const Floats x = values(30000, 7);
  std::uint64_t differs_from_two_roundings = 0;
  for (std::size_t i = 0; i + 2 < x.size(); i += 3) {
    REQUIRE(std::bit_cast<std::uint32_t>(fused(x[i], x[i + 1], x[i + 2])) ==
            std::bit_cast<std::uint32_t>(std::fma(x[i], x[i + 1], x[i + 2])));
    volatile float product = x[i] * x[i + 1];
    differs_from_two_roundings += fused(x[i], x[i + 1], x[i + 2]) != product + x[i + 2];
  }
  CHECK(differs_from_two_roundings > 100);  // or the comparison would prove nothing
}

TEST_CASE("reference chains run in the order of the specification", "[transform]") {
  std::uint64_t descending_differs = 0;
  for (const Shape& sh : shapes) {
    const Floats x = values(static_cast<std::size_t>(sh.rows * sh.cols), 1);
    const Floats u = values(static_cast<std::size_t>(sh.cols * sh.r), 2), v = values(static_cast<std::size_t>(sh.rows * sh.r), 3);
    Floats right(static_cast<std::size_t>(sh.rows * sh.r)), left(static_cast<std::size_t>(sh.r * sh.cols));
    ref::project_right(x.data(), sh.rows, sh.cols, u.data(), sh.r, right.data());
    ref::project_left(x.data(), sh.rows, sh.cols, v.data(), sh.r, left.data());
    for (std::int32_t j = 0; j < sh.r; ++j) {
      for (std::int64_t i = 0; i < sh.rows; ++i) {
        float chain = 0.0f, other = 0.0f;
        for (std::int64_t k = 0; k < sh.cols; ++k) chain = fused(x[at(i, sh.cols, k)], u[at(k, sh.r, j)], chain);
        for (std::int64_t k = sh.cols; k-- > 0;) other = fused(x[at(i, sh.cols, k)], u[at(k, sh.r, j)], other);
        REQUIRE(chain == right[at(i, sh.r, j)]);
        descending_differs += chain != other;
      }
      for (std::int64_t c = 0; c < sh.cols; ++c) {
        float chain = 0.0f;
        for (std::int64_t k = 0; k < sh.rows; ++k) chain = fused(v[at(k, sh.r, j)], x[at(k, sh.cols, c)], chain);
        REQUIRE(chain == left[at(j, sh.cols, c)]);
      }
    }
    for (const float sign : {1.0f, -1.0f}) {
      Floats r_out = x, l_out = x;
      ref::add_outer_right(r_out.data(), sh.rows, sh.cols, right.data(), u.data(), sh.r, sign);
      ref::add_outer_left(l_out.data(), sh.rows, sh.cols, left.data(), v.data(), 0, sh.r, sign);
      for (std::int64_t i = 0; i < sh.rows; ++i) {
        for (std::int64_t c = 0; c < sh.cols; ++c) {
          float a = x[at(i, sh.cols, c)], b = a;
          for (std::int32_t j = 0; j < sh.r; ++j) {
            a = fused(sign * right[at(i, sh.r, j)], u[at(c, sh.r, j)], a);
            b = fused(v[at(i, sh.r, j)], sign * left[at(j, sh.cols, c)], b);
          }
          REQUIRE(a == r_out[at(i, sh.cols, c)]);
          REQUIRE(b == l_out[at(i, sh.cols, c)]);
        }
      }
    }
  }
  CHECK(descending_differs > 1000);
}

TEST_CASE("fast transforms give the bytes of the reference", "[transform]") {
  for (const Shape& sh : shapes) {
    for (const std::size_t offset : {0u, 1u, 3u}) {
      const Floats x = values(static_cast<std::size_t>(sh.rows * sh.cols), 11);
      Floats u, v;
      offset_copy(u, values(static_cast<std::size_t>(sh.cols * sh.r), 12), offset);
      offset_copy(v, values(static_cast<std::size_t>(sh.rows * sh.r), 13), offset);
      const float *up = u.data() + offset, *vp = v.data() + offset;
      Floats a(static_cast<std::size_t>(sh.rows * sh.r)), b(a.size(), NAN);
      ref::project_right(x.data(), sh.rows, sh.cols, up, sh.r, a.data());
      fast::project_right(x.data(), sh.rows, sh.cols, up, sh.r, b.data());
      REQUIRE(same_bytes(a, b));
      Floats c(static_cast<std::size_t>(sh.r * sh.cols)), d(c.size(), NAN);
      ref::project_left(x.data(), sh.rows, sh.cols, vp, sh.r, c.data());
      fast::project_left(x.data(), sh.rows, sh.cols, vp, sh.r, d.data());
      REQUIRE(same_bytes(c, d));
      for (const float sign : {1.0f, -1.0f}) {
        Floats e = x, f = x, g = x, h = x;
        ref::add_outer_right(e.data(), sh.rows, sh.cols, a.data(), up, sh.r, sign);
        fast::add_outer_right(f.data(), sh.rows, sh.cols, a.data(), up, sh.r, sign);
        REQUIRE(same_bytes(e, f));
        const std::int64_t first = sh.rows / 2;  // the rows of a shard: those of U that follow
        ref::add_outer_left(g.data(), sh.rows - first, sh.cols, c.data(), vp, first, sh.r, sign);
        fast::add_outer_left(h.data(), sh.rows - first, sh.cols, c.data(), vp, first, sh.r, sign);
        REQUIRE(same_bytes(g, h));
      }
    }
  }
}

TEST_CASE("every instruction set of this processor gives the same chains and stays within its bounds", "[transform]") {
  std::uint64_t paths = 0;
  for (const fast::Path path : {fast::Path::scalar, fast::Path::avx2, fast::Path::avx512}) {
    if (!fast::supported(path)) continue;
    ++paths;
    for (const Shape& sh : shapes) {
      const std::int64_t m = sh.rows, n = sh.r, depth = sh.cols, stride = n + 5;
      const Floats a = values(static_cast<std::size_t>(m * depth), 21), b = values(static_cast<std::size_t>(depth * n), 22);
      const float guard = 12345.0f;
      Floats out(static_cast<std::size_t>(m * stride), guard);
      for (std::int64_t i = 0; i < m; ++i) std::fill_n(out.begin() + i * stride, n, 0.5f);
      fast::chain_product(path, {m, n, depth, a.data(), depth, 1, b.data(), n, out.data(), stride, -1.0f});
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t c = 0; c < n; ++c) {
          float chain = 0.5f;
          for (std::int64_t k = 0; k < depth; ++k) chain = fused(-a[at(i, depth, k)], b[at(k, n, c)], chain);
          REQUIRE(chain == out[at(i, stride, c)]);
        }
        for (std::int64_t c = n; c < stride; ++c) REQUIRE(out[at(i, stride, c)] == guard);
      }
    }
  }
  CHECK(paths >= 1);
  CHECK(fast::supported(fast::best_path()));
}

TEST_CASE("transforms keep subnormals, zeros and non-finite numbers apart", "[transform]") {
  const Floats x = {1e-45f, -0.0f, 1e-38f, INFINITY, 1.0f, 2.0f}, u = {1.0f, 0.5f, 1.0f};
  Floats a(2), b(2);
  ref::project_right(x.data(), 2, 3, u.data(), 1, a.data());
  fast::project_right(x.data(), 2, 3, u.data(), 1, b.data());
  CHECK(a[0] == 1e-45f + 1e-38f);
  CHECK(std::isinf(a[1]));
  CHECK(same_bytes(a, b));
}

TEST_CASE("hadamard: exact inverse, scale, signs, and the fast one's bytes", "[transform]") {
  for (const std::int32_t block : {1, 2, 4, 8, 16, 64, 128, 512}) {
    const std::int64_t rows = 3, cols = block * 3;
    const auto count = static_cast<std::size_t>(rows * cols);
    // Integers below 2^12 with sums below 2^24: every butterfly is exact, so back is exactly where it began.
    std::mt19937 engine(5);
    std::uniform_int_distribution<int> small(-4095, 4095);
    Floats x(count);
    for (float& v : x) v = static_cast<float>(small(engine));
    Floats y = x;
    ref::hadamard_forward(y.data(), rows, cols, block);
    Floats back = y;
    ref::hadamard_inverse(back.data(), rows, cols, block);
    CHECK(same_bytes(back, x));

    // Against the definition: H_ij = (-1)^popcount(i & j), natural order.
    const int k = std::countr_zero(static_cast<std::uint32_t>(block));
    const float scale = std::ldexp(1.0f, -((k + 1) / 2));
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t first = c / block * block;
      double sum = 0;
      for (std::int64_t j = 0; j < block; ++j) {
        const int odd = std::popcount(static_cast<std::uint64_t>((c - first) & j)) & 1;
        sum += (odd ? -1.0 : 1.0) * static_cast<double>(ref::column_sign(first + j) * x[static_cast<std::size_t>(first + j)]);
      }
      REQUIRE(static_cast<double>(y[static_cast<std::size_t>(c)]) == sum * static_cast<double>(scale));
    }
    Floats p = values(count, 31), q = p;
    ref::hadamard_forward(p.data(), rows, cols, block);
    fast::hadamard_forward(q.data(), rows, cols, block);
    REQUIRE(same_bytes(p, q));
    ref::hadamard_inverse(p.data(), rows, cols, block);
    fast::hadamard_inverse(q.data(), rows, cols, block);
    REQUIRE(same_bytes(p, q));
  }
}

TEST_CASE("a column's sign is the low bit of Philox keyed by the column", "[transform]") {
  int negative = 0;
  for (std::int64_t c = 0; c < 4096; ++c) {
    const std::uint32_t counter[4] = {0, 0, 0, 0};
    std::uint32_t words[4];
    ref::philox4x32(counter, static_cast<std::uint64_t>(c), words);
    REQUIRE(ref::column_sign(c) == ((words[0] & 1u) ? -1.0f : 1.0f));
    negative += ref::column_sign(c) < 0;
  }
  CHECK(negative > 2048 - 4 * 32);  // four standard deviations
  CHECK(negative < 2048 + 4 * 32);
  CHECK(ref::column_sign(0) == -1.0f);  // Random123's published vector for key 0, counter 0 begins 0x6627e8d5: odd
}

TEST_CASE("flipping or permuting columns of U: the same plane", "[transform]") {
  const std::int64_t rows = 37, cols = 50;
  const std::int32_t r = 8;
  const Floats x = values(static_cast<std::size_t>(rows * cols), 41);
  Floats u = values(static_cast<std::size_t>(cols * r), 42), flipped = u, permuted = u;
  for (std::int64_t k = 0; k < cols; ++k) {
    flipped[at(k, r, 3)] = -flipped[at(k, r, 3)];
    for (std::int32_t j = 0; j < r; ++j) permuted[at(k, r, j)] = u[at(k, r, (j + 3) % r)];
  }
  const auto left_over = [&](const Floats& basis) {
    Floats s(static_cast<std::size_t>(rows * r)), e = x;
    fast::project_right(x.data(), rows, cols, basis.data(), r, s.data());
    fast::add_outer_right(e.data(), rows, cols, s.data(), basis.data(), r, -1.0f);
    return e;
  };
  const Floats e = left_over(u), f = left_over(flipped), p = left_over(permuted);
  CHECK(same_bytes(e, f));
  CHECK_FALSE(same_bytes(e, p));  // another order of the chain
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(e[i]) - static_cast<double>(p[i])));
    scale = std::max(scale, std::abs(static_cast<double>(e[i])));
  }
  CHECK(worst <= scale * 1e-4);
}
