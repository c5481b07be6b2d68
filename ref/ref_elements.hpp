// What the codecs of the reference share: one matrix to encode or decode, single codes, counters. Private to ref/.
#pragma once

#include <bit>
#include <cstring>

#include "ref_codec.hpp"

namespace gift::ref {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and written by memcpy");

/// Arguments of encode_elements.
struct EncodeJob {
  const FormatSpec& format;
  const ElementLayout& layout;
  const float* x;
  std::int64_t first_row;
  float tensor_amax;
  const RoundingKey& key;
  Stage stage;
  std::byte* out;
  ElementCounts* counts;

  const float* row(std::int64_t i) const noexcept { return x + i * layout.cols; }
  std::byte* codes(std::int64_t i) const noexcept { return out + layout.code_offset + i * layout.code_row_bytes; }
};

/// Arguments of decode_elements.
struct DecodeJob {
  const FormatSpec& format;
  const ElementLayout& layout;
  const std::byte* in;
  std::int64_t row_begin, row_end;
  float* x;

  float* row(std::int64_t i) const noexcept { return x + (i - row_begin) * layout.cols; }
  const std::byte* codes(std::int64_t i) const noexcept { return in + layout.code_offset + i * layout.code_row_bytes; }
};

/// Rounds scaled elements to codes of one type, and counts what happened to them.
class Rounder {
 public:
  Rounder(const EncodeJob& job, Element element) noexcept : job_(job), element_(element) {}
  /// The code of element (i, j) of the job, whose value `x` was multiplied to `scaled`.
  std::uint16_t operator()(std::int64_t i, std::int64_t j, float x, float scaled) const noexcept;

 private:
  const EncodeJob& job_;
  Element element_;
};

/// code * scale; a finite code times a finite scale never decodes to Inf: FLT_MAX there.
float decoded_value(float code, float scale) noexcept;

/// Largest finite number of an element type: 448, 57344 or 6.
float largest_value(Element element) noexcept;

inline void store_f32(std::byte* at, float value) noexcept { std::memcpy(at, &value, sizeof value); }
inline float load_f32(const std::byte* at) noexcept {
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// FP4: element 2i lies in the low nibble of byte i, element 2i + 1 in the high one. `row` must have been zeroed.
inline void put_nibble(std::byte* row, std::int64_t j, std::uint16_t code) noexcept {
  row[j / 2] |= static_cast<std::byte>(code << (j % 2 == 0 ? 0 : 4));
}
inline std::uint16_t get_nibble(const std::byte* row, std::int64_t j) noexcept {
  return static_cast<std::uint16_t>((std::to_integer<unsigned>(row[j / 2]) >> (j % 2 == 0 ? 0 : 4)) & 0xfu);
}

void encode_scaled(const EncodeJob& job) noexcept;  ///< e4m3, e5m2
void decode_scaled(const DecodeJob& job) noexcept;
void encode_nvfp4(const EncodeJob& job) noexcept;
void decode_nvfp4(const DecodeJob& job) noexcept;
void encode_mx(const EncodeJob& job) noexcept;  ///< mxfp8, mxfp4
void decode_mx(const DecodeJob& job) noexcept;

}  // namespace gift::ref
