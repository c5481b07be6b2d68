// What the parts of `verify` share: the backend under test, the backend it is held against, and the rows that are filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend.hpp"
#include "gift/verify.hpp"
#include "golden.hpp"

namespace gift::verification {

struct Context {
  const VerifyOptions& options;
  const Progress& progress;
  const Backend& subject;
  const Backend& peer;    ///< the scalar reference; the default path when the reference itself is the subject
  const char* peer_name;  ///< "reference" or "default path"
  std::vector<VerifyRow> rows;

  /// The row of that name, made on first use. Rows keep the order in which they were made.
  VerifyRow& row(const std::string& what, const std::string& against);
  void add(const std::string& what, const std::string& against, const golden::Tally& tally);
  void report(std::int64_t done, std::int64_t total, const std::string& what) const {
    if (progress) progress(done, total, what);
  }
};

/// Compares byte by byte, or number by number (bits; any NaN equals any NaN), and notes the first difference.
void compare_bytes(VerifyRow& row, std::span<const std::byte> got, std::span<const std::byte> expected, const std::string& where);
void compare_floats(VerifyRow& row, std::span<const float> got, std::span<const float> expected, const std::string& where);
void compare_counts(VerifyRow& row, std::uint64_t got, std::uint64_t expected, const std::string& where);

/// Numbers that depend on the seed alone: xorshift64*.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}
  std::uint64_t bits() noexcept;
  float uniform() noexcept;  ///< (-1, 1)

 private:
  std::uint64_t state_;
};

/// How a matrix is filled.
enum class Fill : std::uint8_t {
  moderate,    ///< a few binades, rows of different size
  extreme,     ///< rows whose amax lies at the ends of the FP32 range
  zeros,       ///< zero and minus zero rows and blocks among others
  midpoints,   ///< amaxes of nvfp4 blocks, and elements of E4M3 rows, within two places of where their code changes
  non_finite,  ///< moderate with one NaN, one Inf
};
std::vector<float> filled(std::int64_t rows, std::int64_t cols, Fill fill, std::uint64_t seed);

/// A sealed basis with orthonormal columns for a geometry of a rows x cols matrix; null for euclidean and hadamard.
Result<LayerBasisPtr> test_basis(const GeometrySpec& geometry, std::int64_t rows, std::int64_t cols, std::uint64_t seed);

/// One tensor through every verb, on both backends.
struct Case {
  FormatSpec format;
  GeometrySpec geometry;
  std::int64_t rows = 0, cols = 0;
  int world = 1;
  ReduceOp op = ReduceOp::mean;
  Dtype dtype = Dtype::f32;
  Fill fill = Fill::moderate;
  bool feedback = true;
};
Status check_verbs(Context& context, const std::string& label, const Case& c);

// The parts, in the order of the report.
Status verify_elements(Context& context);    ///< conversions and values against the tables, the rest against the peer
Status verify_encodings(Context& context);   ///< golden encoded matrices
Status verify_formats(Context& context);     ///< every format, granularity and rounding, euclidean
Status verify_geometries(Context& context);  ///< every geometry and side
Status verify_sums(Context& context);        ///< sums that are exact in any order
Status verify_packets(Context& context);     ///< headers: round trip, every flipped bit refused

}  // namespace gift::verification
