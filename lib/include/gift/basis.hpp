// Bases: the orthonormal columns U of a layer's geometry, what was measured with them, their hash, and their file.
// A basis is data: two ranks that hold the same hash hold the same map, bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gift/export.hpp"
#include "gift/geometry.hpp"
#include "gift/status.hpp"

namespace gift {

/// XXH3-128 in canonical (big-endian) byte order. All zero means "no basis".
struct Hash128 {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Hash128&) const = default;
};
GIFT_API std::string to_string(const Hash128& hash);  ///< 32 hexadecimal digits

/// One side's map. U is dim x rank, row-major FP32 (dim = n for right, m for left), |U^T U - I| <= 1e-6 everywhere.
struct SideBasis {
  std::int64_t dim = 0;
  std::int32_t rank = 0;
  std::vector<float> u;             ///< dim * rank
  std::vector<float> d;             ///< whiten: D_j (rank of them), else empty
  std::vector<float> d_inv;         ///< whiten: D'_j = D/(1 - D), from the rounded D, else empty
  std::vector<double> eigenvalues;  ///< of the factor, descending, rank of them (informative; not hashed)
  double trace = 0;                 ///< of the factor (informative; not hashed)
};

/// The basis of one layer. A side that the geometry does not use is empty (rank 0).
struct LayerBasis {
  GeometryKind kind = GeometryKind::deflate;
  Side side = Side::none;
  SideBasis right, left;
  Hash128 hash;                      ///< of little-endian U, D, D', side, shape; set by seal()
  std::string source;                ///< "gradients", "activations", ...: where U came from
  std::int64_t step = -1;            ///< training step of the newest sample
  std::int64_t samples = 0;          ///< rows of the factor that were seen
  double exponent = 0, damping = 0;  ///< whiten: what D was made with (informative: D says it all)

  /// Checks shapes, finiteness and orthonormality, and computes `hash`. Must be called after any change.
  GIFT_API Status seal();
};
using LayerBasisPtr = std::shared_ptr<const LayerBasis>;

/// D and D' of whitening for eigenvalues `l` (descending, length r <= n) of an n x n factor with `trace`:
/// SPEC section 3, in FP64, each rounded once to FP32. Refused if tail + delta*mean is not positive and finite.
GIFT_API Status whiten_scales(const std::vector<double>& l, double trace, std::int64_t n, double exponent, double damping,
                              std::vector<float>& d, std::vector<float>& d_inv);

/// A set of bases by tensor name, as in a basis file.
struct BasisSet {
  std::map<std::string, LayerBasisPtr> layers;
  std::map<std::string, std::string> metadata;  ///< sources, step, command; never hashed
  GIFT_API Hash128 hash() const;                ///< of names and layer hashes, in name order
};

/// basis.safetensors: for each layer NAME and side S in {right, left}: `NAME:S.u` F32 [dim, rank], `NAME:S.d`, `NAME:S.d_inv`
/// F32, `NAME:S.eigenvalues` F64; one JSON object a layer in the file's metadata (gift-basis(5)). Written to a temporary file,
/// synced, renamed. Reading recomputes every hash and refuses a file whose hash differs.
GIFT_API Status save_basis(const BasisSet& set, const std::string& path);
GIFT_API Result<BasisSet> load_basis(const std::string& path);

}  // namespace gift
