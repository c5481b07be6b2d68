// mxfp8 and mxfp4 (OCP Microscaling Formats v1.0): E4M3 or E2M1 codes, an E8M0 scale for every 32 elements of a row.
//
//   ceil   scale = the exponent of amax / largest (one FP32 division), plus one if anything follows it: nothing saturates
//   floor  scale = floor(log2 amax) - (exponent of the largest element), OCP's rule: up to the top of a binade can saturate
//   code = round(x * 2^-k) for the scale 2^k; both are exact powers of two, 2^-127 and its reciprocal included
#include <algorithm>

#include "ref_elements.hpp"
#include "ref_minifloat.hpp"

namespace gift::ref {
namespace {

constexpr std::int64_t block_elems = 32;

std::uint8_t floor_scale(float amax, int largest_exponent) noexcept {
  // The exponent field of a finite non-negative number; subnormals have 0 and end at the smallest scale whatever they are.
  const int code = static_cast<int>(std::bit_cast<std::uint32_t>(amax) >> 23) - largest_exponent;
  return static_cast<std::uint8_t>(std::max(code, 0));
}

std::uint8_t block_scale(const FormatSpec& format, Element element, float amax) noexcept {
  if (format.mx_scale == MxScale::floor) return floor_scale(amax, element == Element::e4m3 ? 8 : 2);
  return to_e8m0_ceil(amax / largest_value(element));
}

Element element_of(Format format) noexcept { return format == Format::mxfp8 ? Element::e4m3 : Element::e2m1; }

void encode_block(const EncodeJob& job, std::int64_t i, std::int64_t begin, std::int64_t end) {
  const Element element = element_of(job.format.format);
  const Rounder round(job, element);
  const std::uint8_t scale = block_scale(job.format, element, finite_amax(job.row(i) + begin, end - begin));
  job.out[job.layout.block_scale_offset + i * job.layout.blocks_per_row + begin / block_elems] = static_cast<std::byte>(scale);
  // The reciprocal of 2^(scale - 127). For scale 254 it is 2^-127, a subnormal number; nothing here may flush it.
  const float reciprocal = power_of_two(127 - static_cast<int>(scale));
  for (std::int64_t j = begin; j < end; ++j) {
    const float x = job.row(i)[j];
    const std::uint16_t code = round(i, j, x, x * reciprocal);
    if (element == Element::e2m1) {
      put_nibble(job.codes(i), j, code);
    } else {
      job.codes(i)[j] = static_cast<std::byte>(code);
    }
  }
}

}  // namespace

void encode_mx(const EncodeJob& job) noexcept {
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    for (std::int64_t begin = 0; begin < job.layout.cols; begin += block_elems) {
      encode_block(job, i, begin, std::min(begin + block_elems, job.layout.cols));
    }
  }
}

void decode_mx(const DecodeJob& job) noexcept {
  const Element element = element_of(job.format.format);
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    const std::byte* block_scales = job.in + job.layout.block_scale_offset + i * job.layout.blocks_per_row;
    for (std::int64_t j = 0; j < job.layout.cols; ++j) {
      const float scale = from_e8m0(std::to_integer<std::uint8_t>(block_scales[j / block_elems]));
      const std::uint16_t code =
          element == Element::e2m1 ? get_nibble(job.codes(i), j) : std::to_integer<std::uint16_t>(job.codes(i)[j]);
      job.row(i)[j] = decoded_value(expand_one(element, code), scale);
    }
  }
}

}  // namespace gift::ref
