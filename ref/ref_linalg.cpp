// Linear algebra for bases: Gram matrices and eigenproblems in FP64 by OpenBLAS and LAPACKE, checked, with Eigen as second
// opinion.
//
// Same bytes whatever the number of threads: OpenBLAS cuts its sums by thread, so every call here runs it on one thread (the
// host's number is put back afterwards) and panels of rows are added in order.
#include "ref_linalg.hpp"

#include <cblas.h>
#include <lapacke.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "backend.hpp"
#include "ref_codec.hpp"

namespace gift::ref {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<Matrix>;
using ConstView = Eigen::Map<const Matrix>;

constexpr std::int64_t panel_bytes = std::int64_t{8} << 20;  // FP64 copy of the rows that are added at a time
constexpr std::int64_t largest_dimension = 32000;            // 2 n^2 + 6 n + 1, dsyevd's work size, fits 32 bits
constexpr double slack = 64.0;                               // over n * epsilon, what a backward stable solver may be off by

/// OpenBLAS on one thread for as long as the last of these lives.
class OneThread {
 public:
  OneThread() {
    const std::lock_guard<std::mutex> lock(mutex());
    if (users()++ == 0) {
      saved() = openblas_get_num_threads();
      if (saved() != 1) openblas_set_num_threads(1);
    }
  }
  ~OneThread() {
    const std::lock_guard<std::mutex> lock(mutex());
    if (--users() == 0 && saved() != 1) openblas_set_num_threads(saved());
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static int& users() {
    static int n = 0;
    return n;
  }
  static int& saved() {
    static int n = 1;
    return n;
  }
};

void add_panel_by_blas(const std::vector<double>& panel, std::int64_t rows, std::int64_t n, double* gram) {
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, static_cast<blasint>(n), static_cast<blasint>(rows), 1.0, panel.data(),
              static_cast<blasint>(n), 1.0, gram, static_cast<blasint>(n));
}

void add_panel_by_eigen(const std::vector<double>& panel, std::int64_t rows, std::int64_t n, double* gram) {
  View(gram, n, n).selfadjointView<Eigen::Upper>().rankUpdate(ConstView(panel.data(), rows, n).transpose());
}

void add_gram_by(bool blas, const float* x, std::int64_t rows, std::int64_t n, double* gram) {
  const std::int64_t height = std::max<std::int64_t>(1, panel_bytes / (8 * n));
  std::vector<double> panel;
  for (std::int64_t begin = 0; begin < rows; begin += height) {
    const std::int64_t count = std::min(height, rows - begin);
    panel.assign(x + begin * n, x + (begin + count) * n);
    (blas ? add_panel_by_blas : add_panel_by_eigen)(panel, count, n, gram);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) gram[i * n + j] = gram[j * n + i];
  }
}

/// Vectors as rows of q. Why the answer cannot be trusted, or "". `a` has its largest entry in [1, 2).
std::string fault_of(const ConstView& a, const std::vector<double>& q_rows, const std::vector<double>& values) {
  const Eigen::Index n = a.rows();
  const ConstView q(q_rows.data(), n, n);
  const Eigen::Map<const Eigen::VectorXd> l(values.data(), n);
  if (!q.allFinite() || !l.allFinite()) return "the result is not finite";
  const double norm = std::max(1.0, l.cwiseAbs().maxCoeff());
  const double limit = slack * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
  const double residual = (q * a - l.asDiagonal() * q).cwiseAbs().maxCoeff() / norm;
  if (!(residual <= limit)) return "|AQ - QL| is " + std::to_string(residual) + " of |A|";
  const double off = (q * q.transpose() - Matrix::Identity(n, n)).cwiseAbs().maxCoeff();
  if (!(off <= limit)) return "|Q^T Q - I| is " + std::to_string(off);
  return std::string();
}

/// The power of two that brings the largest entry into [1, 2); 0 if all entries are 0; an error names the first bad entry.
Result<int> exponent_of(const double* gram, std::int64_t n) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < n * n; ++i) {
    if (!std::isfinite(gram[i])) {
      return Status(Code::numeric, "factor of dimension " + std::to_string(n) + " holds " +
                                       (std::isnan(gram[i]) ? "NaN" : "Inf") + " at row " + std::to_string(i / n) + ", column " +
                                       std::to_string(i % n));
    }
    largest = std::max(largest, std::abs(gram[i]));
  }
  return largest == 0.0 ? std::numeric_limits<int>::min() : std::ilogb(largest);
}

/// The last `rank` rows of q become columns, largest eigenvalue first, each with its largest entry positive.
void take_top(const std::vector<double>& q_rows, std::int64_t n, std::int32_t rank, std::vector<double>& vectors) {
  vectors.assign(static_cast<std::size_t>(n * rank), 0.0);
  for (std::int32_t j = 0; j < rank; ++j) {
    const double* q = q_rows.data() + (n - 1 - j) * n;
    const double* largest = std::max_element(q, q + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double sign = *largest < 0.0 ? -1.0 : 1.0;
    for (std::int64_t k = 0; k < n; ++k) vectors[static_cast<std::size_t>(k * rank + j)] = sign * q[k];
  }
}

const std::vector<EigenSolver>& all_solvers() {
  static const std::vector<EigenSolver> solvers = {{"LAPACK dsyevd", solve_by_lapack}, {"Eigen", solve_by_eigen}};
  return solvers;
}

/// The checked choice: OpenBLAS, or Eigen alone where OpenBLAS failed its check.
class CpuLinAlg final : public LinAlg {
 public:
  CpuLinAlg() : fault_(self_check({all_solvers()[0]}, true)), solvers_(all_solvers()) {
    if (fault_.empty()) return;
    solvers_ = {all_solvers()[1]};
    eigen_fault_ = self_check(solvers_, false);
  }

  std::string describe() const override {
    if (!fault_.empty()) return "Eigen (OpenBLAS failed its check: " + fault_ + ")";
    return std::string(openblas_get_config()) + ", core " + openblas_get_corename() + ", 1 thread";
  }

  Status add_gram(const float* x, std::int64_t rows, std::int64_t n, double* gram) const override {
    const FpEnvironment environment;
    const OneThread one_thread;
    if (!eigen_fault_.empty()) return Status(Code::numeric, "linear algebra failed its check: " + eigen_fault_);
    if (rows < 0 || n < 1 || n > std::numeric_limits<std::int32_t>::max() / 2) {
      return Status(Code::invalid_argument, "Gram matrix of " + std::to_string(rows) + " x " + std::to_string(n));
    }
    add_gram_by(fault_.empty(), x, rows, n, gram);
    return Status();
  }

  Status top_eigen(const double* gram, std::int64_t n, std::int32_t rank, std::vector<double>& values,
                   std::vector<double>& vectors) const override {
    if (!eigen_fault_.empty()) return Status(Code::numeric, "linear algebra failed its check: " + eigen_fault_);
    return top_eigen_by(solvers_, gram, n, rank, values, vectors);
  }

 private:
  std::string fault_;
  std::vector<EigenSolver> solvers_;
  std::string eigen_fault_;
};

}  // namespace

std::string solve_by_lapack(std::vector<double>& a, std::int32_t n, std::vector<double>& values) {
  // Row-major upper is column-major lower; in column order each vector is a row of ours.
  // A LAPACK with integers of another width writes elsewhere than it was told; the number behind the last one would show it.
  constexpr double canary = 1.0e300;
  values.assign(static_cast<std::size_t>(n) + 1, canary);
  const lapack_int info =
      LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'L', static_cast<lapack_int>(n), a.data(), static_cast<lapack_int>(n), values.data());
  const bool intact = values.back() == canary;
  values.pop_back();
  if (!intact) return "it wrote past its result: are its integers of another width than lapacke.h says?";
  return info == 0 ? std::string() : "info " + std::to_string(info);
}

std::string solve_by_eigen(std::vector<double>& a, std::int32_t n, std::vector<double>& values) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(ConstView(a.data(), n, n));
  if (solver.info() != Eigen::Success) return "no convergence";
  values.assign(solver.eigenvalues().data(), solver.eigenvalues().data() + n);
  View(a.data(), n, n) = solver.eigenvectors().transpose();
  return std::string();
}

Status top_eigen_by(const std::vector<EigenSolver>& solvers, const double* gram, std::int64_t n, std::int32_t rank,
                    std::vector<double>& values, std::vector<double>& vectors) {
  const FpEnvironment environment;
  const OneThread one_thread;
  if (n < 1 || rank < 0 || rank > n) {
    return Status(Code::invalid_argument, "top " + std::to_string(rank) + " of " + std::to_string(n) + " eigenvectors");
  }
  if (n > largest_dimension) {
    return Status(Code::invalid_argument, "eigenvectors of dimension " + std::to_string(n) + " need " +
                                              std::to_string(16 * n * n) + " bytes of work; LAPACK's counts end at dimension " +
                                              std::to_string(largest_dimension));
  }
  const Result<int> exponent = exponent_of(gram, n);
  if (!exponent.ok()) return exponent.status();
  const auto count = static_cast<std::size_t>(n * n);
  if (*exponent == std::numeric_limits<int>::min()) {  // nothing there: any orthonormal columns do
    values.assign(static_cast<std::size_t>(n), 0.0);
    vectors.assign(static_cast<std::size_t>(n * rank), 0.0);
    for (std::int32_t j = 0; j < rank; ++j) vectors[static_cast<std::size_t>(j) * static_cast<std::size_t>(rank + 1)] = 1.0;
    return Status();
  }
  std::vector<double> scaled(gram, gram + count), work, found;
  for (double& value : scaled) value = std::ldexp(value, -*exponent);
  std::string reasons;
  for (const EigenSolver& solver : solvers) {
    work = scaled;
    std::string fault = solver.solve(work, static_cast<std::int32_t>(n), found);
    if (fault.empty()) fault = fault_of(ConstView(scaled.data(), n, n), work, found);
    if (fault.empty()) {
      values.assign(found.rbegin(), found.rend());
      for (double& value : values) value = std::ldexp(value, *exponent);
      take_top(work, n, rank, vectors);
      return Status();
    }
    reasons += (reasons.empty() ? "" : "; ") + std::string(solver.name) + ": " + fault;
  }
  return Status(Code::numeric, "eigenvectors of a factor of dimension " + std::to_string(n) + ": " + reasons);
}

std::string self_check(const std::vector<EigenSolver>& solvers, bool gram_by_blas) {
  constexpr std::int64_t n = 100;
  // X = diag(sqrt l) H with the reflection H = I - 2vv^T/|v|^2: X^T X = H diag(l) H has eigenvalues l, exactly known. X is
  // rounded to FP32, which moves them by no more than 1e-6 of the largest.
  std::vector<float> x(n * n);
  double norm2 = 0.0;
  for (std::int64_t i = 0; i < n; ++i) norm2 += 1.0 / static_cast<double>((i + 1) * (i + 1));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double h = (i == j ? 1.0 : 0.0) - 2.0 / (static_cast<double>((i + 1) * (j + 1)) * norm2);
      x[static_cast<std::size_t>(i * n + j)] = static_cast<float>(std::sqrt(static_cast<double>(n - i)) * h);
    }
  }
  const FpEnvironment environment;
  const OneThread one_thread;
  std::vector<double> gram(n * n, 0.0), values, vectors;
  add_gram_by(gram_by_blas, x.data(), n, n, gram.data());
  if (const Status s = top_eigen_by(solvers, gram.data(), n, 4, values, vectors); !s.ok()) return s.message();
  for (std::int64_t i = 0; i < n; ++i) {
    const double off = std::abs(values[static_cast<std::size_t>(i)] - static_cast<double>(n - i));
    if (!(off <= 1e-6 * n)) return "eigenvalue " + std::to_string(i) + " of a known matrix is off by " + std::to_string(off);
  }
  std::vector<double> small = {2.0, 0.0, 0.0, 1.0};
  std::vector<double> two;
  for (const EigenSolver& solver : solvers) {
    std::vector<double> a = small;
    if (const std::string fault = solver.solve(a, 2, two); !fault.empty()) return fault;
    if (two.size() != 2 || two[0] != 1.0 || two[1] != 2.0) return "a 2 x 2 matrix is taken apart wrongly";
  }
  return std::string();
}

}  // namespace gift::ref

namespace gift {

const LinAlg& cpu_linalg() {
  static const ref::CpuLinAlg linalg;
  return linalg;
}

}  // namespace gift
