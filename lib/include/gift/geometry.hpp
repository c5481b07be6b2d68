// Coordinate maps: the invertible linear maps in which a gradient is quantised (SPEC section 3).
// All ranks share the map, so sums commute with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gift/export.hpp"
#include "gift/status.hpp"

namespace gift {

enum class GeometryKind : std::uint8_t { euclidean = 0, hadamard = 1, whiten = 2, deflate = 3 };

/// Which index of W (m x n) is mixed: right mixes columns (U is n x r), left mixes rows (U is m x r).
enum class Side : std::uint8_t { none = 0, right = 1, left = 2, both = 3 };

/// What a user asks for. The matrices themselves are in LayerBasis (basis.hpp).
struct GeometrySpec {
  GeometryKind kind = GeometryKind::euclidean;
  Side side = Side::none;           ///< none for euclidean; right for hadamard
  std::int32_t rank = 0;            ///< columns of U wanted a side; clipped to min(m, n)
  double exponent = 0.5;            ///< p of whiten: 1/2 is the paper's
  double damping = 1.0;             ///< delta of whiten, relative to trace/n
  std::int32_t hadamard_block = 0;  ///< 0: the largest power of two <= 128 that divides n

  bool operator==(const GeometrySpec&) const = default;
};

GIFT_API const char* geometry_name(GeometryKind kind) noexcept;  ///< "euclidean", "hadamard", ...
GIFT_API const char* side_name(Side side) noexcept;              ///< "none", "right", "left", "both"
GIFT_API Result<GeometryKind> parse_geometry(std::string_view text);
GIFT_API Result<Side> parse_side(std::string_view text);

inline bool has_right(Side side) noexcept { return side == Side::right || side == Side::both; }
inline bool has_left(Side side) noexcept { return side == Side::left || side == Side::both; }

/// The block that a Hadamard map of `cols` columns uses: `wanted` if it is a power of two dividing cols,
/// the largest power of two <= 128 dividing cols if wanted is 0, an error otherwise.
GIFT_API Result<std::int32_t> hadamard_block(std::int64_t cols, std::int32_t wanted);

}  // namespace gift
