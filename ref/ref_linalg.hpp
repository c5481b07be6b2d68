// What the CPU's linear algebra is made of, open to tests: solvers for symmetric eigenproblems, and the checks that their answers
// have to pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gift/status.hpp"

namespace gift::ref {

/// All eigenvalues (ascending) and eigenvectors of a symmetric n x n matrix. `a` in: the matrix; out: the vectors, one a row.
/// Returns "" or the reason why not.
struct EigenSolver {
  const char* name;
  std::string (*solve)(std::vector<double>& a, std::int32_t n, std::vector<double>& values);
};
std::string solve_by_lapack(std::vector<double>& a, std::int32_t n, std::vector<double>& values);
std::string solve_by_eigen(std::vector<double>& a, std::int32_t n, std::vector<double>& values);

/// LinAlg::top_eigen by the first solver whose answer passes: finite, residual |AQ - QL|, orthonormality, relative to the scale.
/// Code::numeric with every solver's reason if none does.
Status top_eigen_by(const std::vector<EigenSolver>& solvers, const double* gram, std::int64_t n, std::int32_t rank,
                    std::vector<double>& values, std::vector<double>& vectors);

/// Makes a 100 x 100 matrix of known eigenvalues as a Gram matrix and has it taken apart again. Returns "" or what went wrong.
std::string self_check(const std::vector<EigenSolver>& solvers, bool gram_by_blas);

}  // namespace gift::ref
