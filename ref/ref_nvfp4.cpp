// nvfp4: E2M1 codes, an E4M3 scale for every 16 elements of a row, an FP32 global scale per row or tensor.
// The order of the FP32 operations is the contract; 2688 = 448 * 6, the largest scale times the largest element.
//
//   S   = min(2688 / amax, FLT_MAX); 1 if amax is 0
//   b   = E4M3(min(amax_block * (S * (1/6)), FLT_MAX))     rounded up with sr, so that no block maximum is clipped
//   g   = 1 / S                                            what travels as the global scale
//   d   = b * g
//   enc = min(1 / d, FLT_MAX)
//   code = E2M1(x * enc),  decode = value(code) * d
//
// b = 0: the block's payload is zero bytes, and decodes to zeros.
#include <algorithm>
#include <cfloat>

#include "ref_elements.hpp"

namespace gift::ref {
namespace {

constexpr float one_sixth = 1.0f / 6.0f;
constexpr float largest_product = 2688.0f;
constexpr std::int64_t block_elems = 16;

struct GlobalScale {
  float encode;  ///< S
  float decode;  ///< g
};

GlobalScale global_scale(float amax) noexcept {
  const float encode = amax == 0.0f ? 1.0f : std::min(largest_product / amax, FLT_MAX);
  return {encode, 1.0f / encode};
}

std::uint8_t block_scale(float amax_block, float encode, Rounding rounding) noexcept {
  const float factor = encode * one_sixth;
  const float wanted = std::min(amax_block * factor, FLT_MAX);
  return rounding == Rounding::sr ? to_e4m3_up(wanted) : to_e4m3(wanted);
}

void encode_block(const EncodeJob& job, std::int64_t i, std::int64_t begin, std::int64_t end, const GlobalScale& global) {
  const std::uint8_t b = block_scale(finite_amax(job.row(i) + begin, end - begin), global.encode, job.format.rounding);
  job.out[job.layout.block_scale_offset + i * job.layout.blocks_per_row + begin / block_elems] = static_cast<std::byte>(b);
  const Rounder round(job, Element::e2m1);
  // With b = 0 every element is scaled by 0, so that the counters see what was lost; the codes stay zero, signs included.
  const float d = from_e4m3(b) * global.decode;
  const float enc = b == 0 ? 0.0f : std::min(1.0f / d, FLT_MAX);
  for (std::int64_t j = begin; j < end; ++j) {
    const float x = job.row(i)[j];
    const std::uint16_t code = round(i, j, x, x * enc);
    if (b != 0) put_nibble(job.codes(i), j, code);
  }
}

}  // namespace

void encode_nvfp4(const EncodeJob& job) noexcept {
  const bool per_row = job.format.granularity == Granularity::row;
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    const GlobalScale global = global_scale(per_row ? finite_amax(job.row(i), job.layout.cols) : job.tensor_amax);
    store_f32(job.out + job.layout.fp32_scale_offset + (per_row ? 4 * i : 0), global.decode);
    for (std::int64_t begin = 0; begin < job.layout.cols; begin += block_elems) {
      encode_block(job, i, begin, std::min(begin + block_elems, job.layout.cols), global);
    }
  }
}

void decode_nvfp4(const DecodeJob& job) noexcept {
  const bool per_row = job.format.granularity == Granularity::row;
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    const float global = load_f32(job.in + job.layout.fp32_scale_offset + (per_row ? 4 * i : 0));
    const std::byte* block_scales = job.in + job.layout.block_scale_offset + i * job.layout.blocks_per_row;
    for (std::int64_t j = 0; j < job.layout.cols; ++j) {
      const float d = from_e4m3(std::to_integer<std::uint8_t>(block_scales[j / block_elems])) * global;
      job.row(i)[j] = decoded_value(expand_one(Element::e2m1, get_nibble(job.codes(i), j)), d);
    }
  }
}

}  // namespace gift::ref
