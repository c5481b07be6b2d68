// Wire formats: which element, how scales are shared, how values are rounded, and how many bytes that is.
// The arithmetic behind each format is in ref/ (the specification) and, independently, in cuda/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gift/export.hpp"
#include "gift/status.hpp"

namespace gift {

/// Element type of a caller's buffer.
enum class Dtype : std::uint8_t { f32 = 0, bf16 = 1, f16 = 2 };
GIFT_API std::int64_t dtype_bytes(Dtype dtype) noexcept;
GIFT_API const char* dtype_name(Dtype dtype) noexcept;  ///< "f32", "bf16", "f16"

/// What travels. The values are stable: they are written into packets and files.
enum class Format : std::uint8_t { fp32 = 0, bf16 = 1, e4m3 = 2, e5m2 = 3, mxfp8 = 4, nvfp4 = 5, mxfp4 = 6 };

/// Over what one scale is shared. For nvfp4 this is the granularity of the FP32 global scale (row or tensor);
/// for mxfp8 and mxfp4 it is always `block`; for fp32 and bf16 it is `none`.
enum class Granularity : std::uint8_t { none = 0, tensor = 1, row = 2, block = 3 };

enum class Rounding : std::uint8_t {
  rne = 0,  ///< to nearest, ties to even
  sr = 1,   ///< stochastic, by Philox4x32-10 (SPEC "Rounding")
};

/// How an E8M0 scale is taken from amax / largest element (OCP Microscaling Formats v1.0).
enum class MxScale : std::uint8_t {
  ceil = 0,   ///< next power of two that is not smaller: nothing saturates (default)
  floor = 1,  ///< OCP's rule, floor(log2 amax) - emax: up to half of the largest elements can saturate
};

/// A wire format with all its choices.
struct FormatSpec {
  Format format = Format::fp32;
  Granularity granularity = Granularity::none;
  std::int32_t block = 0;  ///< elements along a row that share a scale; 0 unless `block` or fixed by the format
  Rounding rounding = Rounding::rne;
  MxScale mx_scale = MxScale::ceil;

  bool operator==(const FormatSpec&) const = default;
};

/// Parses "e4m3", "e4m3:tensor", "e5m2:row", "e4m3:block:64", "mxfp8", "mxfp4:floor", "nvfp4", "nvfp4:tensor",
/// "bf16", "fp32", each optionally followed by ":sr". Bare "e4m3" and "e5m2" mean ":block:128", bare "nvfp4" ":row".
GIFT_API Result<FormatSpec> parse_format(std::string_view text);

/// The canonical text of a format; `parse_format` gives it back unchanged.
GIFT_API std::string to_string(const FormatSpec& spec);

/// Refuses combinations that the format does not have (block <= 0, nvfp4 with block granularity, ...).
GIFT_API Status validate(const FormatSpec& spec);

/// Name of the bare format: "e4m3", "nvfp4", ...
GIFT_API const char* format_name(Format format) noexcept;

/// Where the parts of an encoded rows x cols matrix lie, in bytes from the start of its element section.
/// FP32 scales come first (one, one a row, or one a block, row by row), then the one-byte block scales (nvfp4: E4M3,
/// mxfp8 and mxfp4: E8M0), then, at the next multiple of 16, the codes, row by row; FP4 rows end on a byte.
/// Every FP32 scale on the wire is the number that a decoder multiplies by (SPEC: 1/s for e4m3 and e5m2, g for nvfp4).
/// Gaps between the parts are zero bytes.
struct ElementLayout {
  std::int64_t rows = 0, cols = 0;
  std::int64_t blocks_per_row = 0;  ///< 0 where there are no block scales
  std::int64_t fp32_scales = 0;     ///< how many FP32 scales
  std::int64_t fp32_scale_offset = 0;
  std::int64_t block_scale_offset = 0;  ///< one-byte block scales (E4M3 or E8M0); equals code_offset if none
  std::int64_t code_offset = 0;
  std::int64_t code_row_bytes = 0;
  std::int64_t total_bytes = 0;  ///< rounded up to a multiple of 16
};

/// Layout of a rows x cols matrix in `spec`. Empty matrices have zero bytes. Sizes are checked for overflow.
GIFT_API Result<ElementLayout> element_layout(const FormatSpec& spec, std::int64_t rows, std::int64_t cols);

/// Wire bits per element of a rows x cols matrix, scales included, geometry and headers not.
GIFT_API double bits_per_element(const FormatSpec& spec, std::int64_t rows, std::int64_t cols);

}  // namespace gift
