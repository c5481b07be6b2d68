// e4m3 and e5m2: FP8 codes under FP32 scales, one a tensor, a row or a block of a row.
//
//   s      = largest / amax          one division; 1 if amax is 0; FLT_MAX if the quotient overflows (amax below 1.3e-36)
//   code   = round(x * s)            one multiplication, one rounding
//   wire   = 1 / s                   one division; this is what travels
//   decode = value(code) * (1 / s)   one multiplication
#include <algorithm>
#include <cfloat>

#include "ref_elements.hpp"

namespace gift::ref {
namespace {

float encode_scale(float largest, float amax) noexcept { return amax == 0.0f ? 1.0f : std::min(largest / amax, FLT_MAX); }

Element element_of(Format format) noexcept { return format == Format::e4m3 ? Element::e4m3 : Element::e5m2; }

/// Encodes elements [begin, end) of row i under one scale and stores the scale that decodes them.
void encode_run(const EncodeJob& job, std::int64_t i, std::int64_t begin, std::int64_t end, float amax,
                std::int64_t scale_index) {
  const Element element = element_of(job.format.format);
  const Rounder round(job, element);
  const float scale = encode_scale(largest_value(element), amax);
  for (std::int64_t j = begin; j < end; ++j) {
    const float x = job.row(i)[j];
    job.codes(i)[j] = static_cast<std::byte>(round(i, j, x, x * scale));
  }
  store_f32(job.out + job.layout.fp32_scale_offset + 4 * scale_index, 1.0f / scale);
}

/// Elements of a row that share a scale, and how many such runs a row has.
std::int64_t run_length(const FormatSpec& format, const ElementLayout& layout) noexcept {
  return format.granularity == Granularity::block ? std::int64_t{format.block} : layout.cols;
}

/// Position of a run's scale among the FP32 scales.
std::int64_t scale_position(const FormatSpec& format, const ElementLayout& layout, std::int64_t i, std::int64_t run) noexcept {
  switch (format.granularity) {
    case Granularity::block:
      return i * layout.blocks_per_row + run;
    case Granularity::row:
      return i;
    default:
      return 0;
  }
}

}  // namespace

void encode_scaled(const EncodeJob& job) noexcept {
  const std::int64_t length = run_length(job.format, job.layout);
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    std::int64_t run = 0;
    for (std::int64_t begin = 0; begin < job.layout.cols; begin += length, ++run) {
      const std::int64_t end = std::min(begin + length, job.layout.cols);
      const float amax =
          job.format.granularity == Granularity::tensor ? job.tensor_amax : finite_amax(job.row(i) + begin, end - begin);
      encode_run(job, i, begin, end, amax, scale_position(job.format, job.layout, i, run));
    }
  }
}

void decode_scaled(const DecodeJob& job) noexcept {
  const Element element = element_of(job.format.format);
  const std::int64_t length = run_length(job.format, job.layout);
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    for (std::int64_t j = 0; j < job.layout.cols; ++j) {
      const std::int64_t position = scale_position(job.format, job.layout, i, j / length);
      const float scale = load_f32(job.in + job.layout.fp32_scale_offset + 4 * position);
      job.row(i)[j] = decoded_value(expand_one(element, std::to_integer<std::uint16_t>(job.codes(i)[j])), scale);
    }
  }
}

}  // namespace gift::ref
