// Linear algebra of the CPU: Gram matrices and eigenproblems that must survive zero, rank-1, repeated, huge, tiny and NaN input,
// a solver that lies, and any number of threads.
#include <cblas.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend.hpp"
#include "catch.hpp"
#include "ref_linalg.hpp"

namespace {

using namespace gift;
using Doubles = std::vector<double>;

Doubles random_symmetric(std::int64_t n, double scale, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  Doubles a(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      a[static_cast<std::size_t>(i * n + j)] = a[static_cast<std::size_t>(j * n + i)] = scale * normal(engine);
    }
  }
  return a;
}

/// Largest |A q - l q| over |A|, and largest |q_i . q_j - [i = j]|, computed here.
void check_vectors(const Doubles& a, std::int64_t n, std::int32_t rank, const Doubles& values, const Doubles& vectors,
                   double scale) {
  REQUIRE(values.size() == static_cast<std::size_t>(n));
  REQUIRE(vectors.size() == static_cast<std::size_t>(n * rank));
  const auto q = [&](std::int64_t k, std::int64_t j) { return vectors[static_cast<std::size_t>(k * rank + j)]; };
  for (std::size_t i = 1; i < values.size(); ++i) REQUIRE(values[i] <= values[i - 1]);
  double residual = 0, off = 0;
  for (std::int64_t j = 0; j < rank; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k) sum += a[static_cast<std::size_t>(i * n + k)] / scale * q(k, j);
      residual = std::max(residual, std::abs(sum - values[static_cast<std::size_t>(j)] / scale * q(i, j)));
    }
    for (std::int64_t l = 0; l <= j; ++l) {
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k) sum += q(k, j) * q(k, l);
      off = std::max(off, std::abs(sum - (j == l ? 1.0 : 0.0)));
    }
    double largest = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      if (std::abs(q(k, j)) > std::abs(largest)) largest = q(k, j);
    }
    CHECK(largest > 0);
  }
  CHECK(residual < 1e-10);
  CHECK(off < 1e-12);
}

std::string solve_with_nan(Doubles& a, std::int32_t n, Doubles& values) {
  values.assign(static_cast<std::size_t>(n), NAN);
  a[0] = NAN;
  return "";
}
std::string solve_wrongly(Doubles& a, std::int32_t n, Doubles& values) {
  const std::string fault = ref::solve_by_eigen(a, n, values);
  values[0] += 0.5;
  return fault;
}
std::string solve_skewed(Doubles& a, std::int32_t n, Doubles& values) {
  const std::string fault = ref::solve_by_eigen(a, n, values);
  for (std::int32_t k = 0; k < n; ++k) a[static_cast<std::size_t>(k)] *= 1.001;
  return fault;
}
std::string solve_not(Doubles&, std::int32_t, Doubles&) { return "no convergence"; }

}  // namespace

TEST_CASE("eigenproblems of every awkward kind pass their checks", "[linalg]") {
  const LinAlg& linalg = cpu_linalg();
  Doubles values, vectors;
  for (const double scale : {1.0, 1e30, 1e-30, 1e150, 1e-150, 1e-300}) {
    const Doubles a = random_symmetric(40, scale, 3);
    REQUIRE(linalg.top_eigen(a.data(), 40, 7, values, vectors).ok());
    check_vectors(a, 40, 7, values, vectors, scale);
  }
  Doubles zero(64 * 64, 0.0), identity = zero, rank_one = zero, six = zero;
  for (std::size_t i = 0; i < 64; ++i) {
    identity[i * 65] = 1.0;
    if (i < 6) six[i * 65] = static_cast<double>(i + 1);
    for (std::size_t j = 0; j < 64; ++j) rank_one[i * 64 + j] = static_cast<double>((i + 1) * (j + 1));
  }
  for (const Doubles* a : {&zero, &identity, &rank_one, &six}) {
    REQUIRE(linalg.top_eigen(a->data(), 64, 32, values, vectors).ok());
    check_vectors(*a, 64, 32, values, vectors, 1e5);
  }
  CHECK(values[0] == Approx(6.0));
  CHECK(std::abs(values[6]) < 1e-12);
  const Doubles one = {3.0};
  REQUIRE(linalg.top_eigen(one.data(), 1, 1, values, vectors).ok());
  CHECK(values[0] == 3.0);
  CHECK(vectors[0] == 1.0);
}

TEST_CASE("a factor that is not finite is refused by row and column, whatever its shape", "[linalg]") {
  Doubles a = random_symmetric(64, 1.0, 5), values, vectors;
  a[64 * 9 + 4] = NAN;
  Status s = cpu_linalg().top_eigen(a.data(), 64, 4, values, vectors);
  CHECK(s.code() == Code::numeric);
  CHECK(s.message().find("NaN at row 9, column 4") != std::string::npos);
  a[64 * 9 + 4] = INFINITY;
  s = cpu_linalg().top_eigen(a.data(), 64, 4, values, vectors);
  CHECK(s.message().find("Inf at row 9, column 4") != std::string::npos);
  CHECK(cpu_linalg().top_eigen(a.data(), 64, 65, values, vectors).code() == Code::invalid_argument);
  CHECK(cpu_linalg().top_eigen(a.data(), 0, 0, values, vectors).code() == Code::invalid_argument);
  CHECK(cpu_linalg().top_eigen(a.data(), 40000, 1, values, vectors).message().find("25600000000 bytes") != std::string::npos);
}

TEST_CASE("solvers that lie are found out; the next one answers, or the error says all reasons", "[linalg]") {
  const Doubles a = random_symmetric(20, 1e-12, 8);
  Doubles values, vectors;
  for (const auto lie : {solve_with_nan, solve_wrongly, solve_skewed, solve_not}) {
    const Status alone = ref::top_eigen_by({{"first", lie}}, a.data(), 20, 3, values, vectors);
    CHECK(alone.code() == Code::numeric);
    CHECK(alone.message().find("first: ") != std::string::npos);
    REQUIRE(ref::top_eigen_by({{"first", lie}, {"second", ref::solve_by_eigen}}, a.data(), 20, 3, values, vectors).ok());
    check_vectors(a, 20, 3, values, vectors, 1e-12);
    CHECK_FALSE(ref::self_check({{"first", lie}}, true).empty());
  }
  const Status both = ref::top_eigen_by({{"first", solve_not}, {"second", solve_with_nan}}, a.data(), 20, 3, values, vectors);
  CHECK(both.message().find("first: no convergence; second: the result is not finite") != std::string::npos);
}

TEST_CASE("the check at start passes here, by both libraries, and the description names the BLAS", "[linalg]") {
  CHECK(ref::self_check({{"LAPACK", ref::solve_by_lapack}}, true).empty());
  CHECK(ref::self_check({{"Eigen", ref::solve_by_eigen}}, false).empty());
  CHECK(cpu_linalg().describe().find("OpenBLAS") != std::string::npos);
  CHECK(cpu_linalg().describe().find("core ") != std::string::npos);
}

TEST_CASE("Gram matrices add up, panel by panel, and do not depend on the number of threads", "[linalg]") {
  std::mt19937 engine(17);
  std::normal_distribution<float> normal;
  const std::int64_t rows = 5000, n = 300;  // several panels
  std::vector<float> x(static_cast<std::size_t>(rows * n));
  for (float& v : x) v = normal(engine);
  Doubles gram(static_cast<std::size_t>(n * n), 0.0);
  REQUIRE(cpu_linalg().add_gram(x.data(), rows, n, gram.data()).ok());
  for (const std::size_t i : {0u, 150u, 299u}) {
    for (std::size_t j = 0; j < 300; j += 23) {
      double sum = 0;
      for (std::size_t k = 0; k < 5000; ++k) sum += static_cast<double>(x[k * 300 + i]) * static_cast<double>(x[k * 300 + j]);
      REQUIRE(gram[i * 300 + j] == Approx(sum).margin(1e-9));
      REQUIRE(gram[i * 300 + j] == gram[j * 300 + i]);
    }
  }
  Doubles values, vectors, values4, vectors4, gram4(gram.size(), 0.0);
  REQUIRE(cpu_linalg().top_eigen(gram.data(), n, 16, values, vectors).ok());
  const int before = openblas_get_num_threads();
  openblas_set_num_threads(4);
  REQUIRE(cpu_linalg().add_gram(x.data(), rows, n, gram4.data()).ok());
  REQUIRE(cpu_linalg().top_eigen(gram4.data(), n, 16, values4, vectors4).ok());
  CHECK(openblas_get_num_threads() == 4);  // the host's setting is put back
  openblas_set_num_threads(before);
  CHECK(gram == gram4);
  CHECK(values == values4);
  CHECK(vectors == vectors4);
}
