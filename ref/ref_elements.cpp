// Dispatch over the formats, the two formats without scales, and single conversions.
#include "ref_elements.hpp"

#include <cfloat>
#include <cmath>

#include "ref_minifloat.hpp"

namespace gift::ref {
namespace {

const MiniFloat& type_of(Element element) noexcept {
  switch (element) {
    case Element::e4m3:
      return e4m3_type;
    case Element::e5m2:
      return e5m2_type;
    case Element::e2m1:
      return e2m1_type;
    case Element::f16:
      return f16_ieee_type;
    default:
      return bf16_saturating_type;
  }
}

/// The smallest magnitude that rounds beyond the largest number, as FP32 bits: the midpoint to the number that would come next,
/// or the one after it where the tie goes to the largest (E4M3's 464; in the others the largest code is odd).
std::uint32_t saturates_from_bits(Element element) noexcept {
  switch (element) {
    case Element::e4m3:
      return std::bit_cast<std::uint32_t>(464.0f) + 1u;
    case Element::e5m2:
      return std::bit_cast<std::uint32_t>(61440.0f);
    case Element::e2m1:
      return std::bit_cast<std::uint32_t>(7.0f);
    default:
      return 0x7f7f8000u;  // BF16
  }
}

std::uint16_t convert_sr(Element element, float x, std::uint32_t word) noexcept {
  switch (element) {
    case Element::e4m3:
      return to_e4m3_sr(x, word);
    case Element::e5m2:
      return to_e5m2_sr(x, word);
    case Element::e2m1:
      return to_e2m1_sr(x, word);
    case Element::bf16:
      return to_bf16_sr(x, word);
    default:
      return convert_one(element, Rounding::rne, x, 0);  // scales and callers' F16 are never stochastic
  }
}

void encode_fp32(const EncodeJob& job) noexcept {
  std::memcpy(job.out, job.x, static_cast<std::size_t>(job.layout.rows * job.layout.code_row_bytes));
}

void encode_bf16(const EncodeJob& job) noexcept {
  const Rounder round(job, Element::bf16);
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    for (std::int64_t j = 0; j < job.layout.cols; ++j) {
      const float x = job.row(i)[j];
      const std::uint16_t code = round(i, j, x, x);
      std::memcpy(job.codes(i) + 2 * j, &code, sizeof code);
    }
  }
}

void decode_fp32(const DecodeJob& job) noexcept {
  std::memcpy(job.x, job.codes(job.row_begin),
              static_cast<std::size_t>((job.row_end - job.row_begin) * job.layout.code_row_bytes));
}

void decode_bf16(const DecodeJob& job) noexcept {
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    for (std::int64_t j = 0; j < job.layout.cols; ++j) {
      std::uint16_t code = 0;
      std::memcpy(&code, job.codes(i) + 2 * j, sizeof code);
      job.row(i)[j] = from_bf16(code);
    }
  }
}

}  // namespace

std::uint16_t convert_one(Element element, Rounding rounding, float x, std::uint32_t word) noexcept {
  if (rounding == Rounding::sr) return convert_sr(element, x, word);
  switch (element) {
    case Element::e4m3:
      return to_e4m3(x);
    case Element::e5m2:
      return to_e5m2(x);
    case Element::e2m1:
      return to_e2m1(x);
    case Element::e8m0:
      return to_e8m0_ceil(x);
    case Element::bf16:
      return to_bf16(x);
    case Element::f16:
      return to_f16_ieee(x);
  }
  return 0;
}

float expand_one(Element element, std::uint16_t code) noexcept {
  const auto byte = static_cast<std::uint8_t>(code);
  switch (element) {
    case Element::e4m3:
      return from_e4m3(byte);
    case Element::e5m2:
      return from_e5m2(byte);
    case Element::e2m1:
      return from_e2m1(byte);
    case Element::e8m0:
      return from_e8m0(byte);
    case Element::bf16:
      return from_bf16(code);
    case Element::f16:
      return from_f16(code);
  }
  return 0;
}

void convert_values(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
                    std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint32_t word = rounding == Rounding::sr ? random_word(key, Stage::sender, first_index + i) : 0;
    out[i] = convert_one(element, rounding, in[i], word);
  }
}

void expand_codes(Element element, std::span<const std::uint16_t> in, std::span<float> out) noexcept {
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = expand_one(element, in[i]);
}

float largest_value(Element element) noexcept {
  return expand_one(element, static_cast<std::uint16_t>(type_of(element).largest_code));
}

float decoded_value(float code, float scale) noexcept {
  const float value = code * scale;
  if (std::isinf(value) && std::isfinite(code) && std::isfinite(scale)) return std::copysign(FLT_MAX, value);
  return value;
}

std::uint16_t Rounder::operator()(std::int64_t i, std::int64_t j, float x, float scaled) const noexcept {
  std::uint32_t word = 0;
  if (job_.format.rounding == Rounding::sr) {
    const auto index = static_cast<std::uint64_t>((job_.first_row + i) * job_.layout.cols + j);
    word = random_word(job_.key, job_.stage, index);
  }
  const std::uint16_t code = convert_one(element_, job_.format.rounding, scaled, word);
  if (job_.counts != nullptr) {
    const MiniFloat& type = type_of(element_);
    const std::uint32_t magnitude_code = code & ((1u << type.sign_bit) - 1u);
    const std::uint32_t scaled_bits = std::bit_cast<std::uint32_t>(scaled) & 0x7fffffffu;
    const std::uint32_t x_bits = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    if (scaled_bits >= saturates_from_bits(element_) && scaled_bits <= 0x7f800000u) ++job_.counts->saturated;
    if (magnitude_code == type.largest_code) ++job_.counts->top_codes;
    if (magnitude_code == 0 && x_bits != 0 && x_bits < 0x7f800000u) ++job_.counts->bottom_codes;
  }
  return code;
}

void encode_elements(const FormatSpec& format, const ElementLayout& layout, const float* x, std::int64_t first_row,
                     float tensor_amax, const RoundingKey& key, Stage stage, std::byte* out, ElementCounts* counts) {
  if (layout.total_bytes == 0) return;
  // Every gap of the section is zero, and FP4 codes are put in by OR.
  std::memset(out, 0, static_cast<std::size_t>(layout.total_bytes));
  const EncodeJob job{format, layout, x, first_row, tensor_amax, key, stage, out, counts};
  switch (format.format) {
    case Format::fp32:
      return encode_fp32(job);
    case Format::bf16:
      return encode_bf16(job);
    case Format::e4m3:
    case Format::e5m2:
      return encode_scaled(job);
    case Format::nvfp4:
      return encode_nvfp4(job);
    case Format::mxfp8:
    case Format::mxfp4:
      return encode_mx(job);
  }
}

void decode_elements(const FormatSpec& format, const ElementLayout& layout, const std::byte* in, std::int64_t row_begin,
                     std::int64_t row_end, float* x) {
  if (layout.total_bytes == 0) return;
  const DecodeJob job{format, layout, in, row_begin, row_end, x};
  switch (format.format) {
    case Format::fp32:
      return decode_fp32(job);
    case Format::bf16:
      return decode_bf16(job);
    case Format::e4m3:
    case Format::e5m2:
      return decode_scaled(job);
    case Format::nvfp4:
      return decode_nvfp4(job);
    case Format::mxfp8:
    case Format::mxfp4:
      return decode_mx(job);
  }
}

}  // namespace gift::ref
