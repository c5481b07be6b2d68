// Backend: the verbs a device must provide. Private: users call them through Codec and Session.
// Two backends never share arithmetic; what they share is layout (plan.hpp, format.hpp) and these signatures.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gift/codec.hpp"
#include "gift/status.hpp"

namespace gift {

/// Elements that `Backend::convert` and `expand` know: the single-number codecs underneath the formats.
enum class Element : std::uint8_t { e4m3 = 0, e5m2 = 1, e2m1 = 2, e8m0 = 3, bf16 = 4, f16 = 5 };

/// Linear algebra for bases. Column counts up to 2048 are exact; results pass their own checks or come back as Code::numeric.
class LinAlg {
 public:
  virtual ~LinAlg() = default;
  /// "OpenBLAS 0.3.21 SkylakeX, 1 thread"
  virtual std::string describe() const = 0;
  /// gram (n x n, row-major, both triangles) += X^T X for X rows x n row-major. FP64 sums of exact FP32 products.
  virtual Status add_gram(const float* x, std::int64_t rows, std::int64_t n, double* gram) const = 0;
  /// All eigenvalues, descending, and the first `rank` eigenvectors (n x rank, row-major) of a symmetric matrix. Signs: the entry
  /// of largest magnitude of each vector is positive. Checked: finite, residual, orthonormality.
  virtual Status top_eigen(const double* gram, std::int64_t n, std::int32_t rank, std::vector<double>& values,
                           std::vector<double>& vectors) const = 0;
};

/// Arguments have been checked by Codec; sizes and layouts come from the TensorPlan.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const noexcept = 0;
  /// Device and instruction set, for people.
  virtual std::string describe() const = 0;

  virtual Status encode(const EncodeArgs& args) const = 0;
  virtual Status reduce(const ReduceArgs& args) const = 0;
  virtual Status decode(const DecodeArgs& args) const = 0;
  virtual Status commit(const CommitArgs& args) const = 0;
  virtual Status rollback(const RollbackArgs& args) const = 0;

  /// Moves residuals from one plan's coordinates to another's, at a refresh of bases; nothing is lost. Where the coordinates that
  /// are quantised change (whiten, or another geometry), the owner's residual (own shard's rows, may be null) is mapped back,
  /// folded into the sender's (times world for a mean, since one rank carries it) and zeroed. Then a residual that lives in
  /// whitened coordinates (EncodeArgs) becomes R T_old^-1 T_new.
  virtual Status re_express(const TensorPlan& old_plan, const TensorPlan& new_plan, int shard, float* owner_residual,
                            float* residual) const = 0;

  /// One code a value (no packing), as the formats round them. `key` is used by Rounding::sr only; index counts from
  /// `first_index`.
  virtual Status convert(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
                         std::span<const float> in, std::span<std::uint16_t> out) const = 0;
  virtual Status expand(Element element, std::span<const std::uint16_t> in, std::span<float> out) const = 0;

  virtual const LinAlg& linalg() const = 0;
};

/// registry.cpp: the only place that names backends. A forced name opens or errors.
Result<std::shared_ptr<const Backend>> open_backend(const std::string& name);

/// ref/: the scalar specification, and the default path (vectorised where that is done, byte-equal).
std::shared_ptr<const Backend> make_ref_backend();
std::shared_ptr<const Backend> make_cpu_backend();

/// ref/ref_linalg.cpp: the linear algebra of the CPU backends, checked once at first use.
const LinAlg& cpu_linalg();

/// The backend behind a Codec, for the library's own use.
const Backend& backend_of(const Codec& codec);

}  // namespace gift
