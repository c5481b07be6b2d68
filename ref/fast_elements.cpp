// Encode and decode of whole matrices over the fast kernels: e4m3, e5m2 and nvfp4 to nearest. Everything else (stochastic
// rounding, mxfp8, mxfp4, bf16, fp32) is the reference's work until a kernel is written for it.
#include <algorithm>
#include <array>
#include <cfloat>

#include "fast_kernels.hpp"
#include "ref_elements.hpp"

namespace gift::fast {
namespace {

using ref::DecodeJob;
using ref::EncodeJob;

std::uint8_t* as_bytes(std::byte* at) noexcept { return reinterpret_cast<std::uint8_t*>(at); }
const std::uint8_t* as_bytes(const std::byte* at) noexcept { return reinterpret_cast<const std::uint8_t*>(at); }

float amax_of(const Kernels& k, const float* x, std::int64_t count) noexcept {
  return std::bit_cast<float>(k.amax_bits(x, count));
}

/// Values of all codes of a one-byte type; for E2M1 the low nibble counts.
const float* values_of(Element element) noexcept {
  struct Tables {
    std::array<std::array<float, 256>, 3> values;
    Tables() noexcept {
      for (std::size_t e = 0; e < values.size(); ++e) {
        for (std::size_t c = 0; c < 256; ++c)
          values[e][c] = ref::expand_one(static_cast<Element>(e), static_cast<std::uint16_t>(c));
      }
    }
  };
  static const Tables tables;
  return tables.values[static_cast<std::size_t>(element)].data();
}

std::int64_t run_length(const FormatSpec& format, const ElementLayout& layout) noexcept {
  return format.granularity == Granularity::block ? std::int64_t{format.block} : layout.cols;
}

std::int64_t scale_position(const FormatSpec& format, const ElementLayout& layout, std::int64_t i, std::int64_t run) noexcept {
  if (format.granularity == Granularity::block) return i * layout.blocks_per_row + run;
  return format.granularity == Granularity::row ? i : 0;
}

void encode_fp8(const Kernels& k, const EncodeJob& job, ref::ElementCounts& counts) noexcept {
  const bool is_e4m3 = job.format.format == Format::e4m3;
  const auto encode = is_e4m3 ? k.encode_e4m3 : k.encode_e5m2;
  const float largest = is_e4m3 ? 448.0f : 57344.0f;
  const std::int64_t length = run_length(job.format, job.layout), cols = job.layout.cols;
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    std::int64_t run = 0;
    for (std::int64_t begin = 0; begin < cols; begin += length, ++run) {
      const float* x = job.row(i) + begin;
      const std::int64_t count = std::min(length, cols - begin);
      const float amax = job.format.granularity == Granularity::tensor ? job.tensor_amax : amax_of(k, x, count);
      const float scale = amax == 0.0f ? 1.0f : std::min(largest / amax, FLT_MAX);
      encode(x, count, scale, as_bytes(job.codes(i)) + begin, counts);
      ref::store_f32(job.out + job.layout.fp32_scale_offset + 4 * scale_position(job.format, job.layout, i, run), 1.0f / scale);
    }
  }
}

void encode_nvfp4(const Kernels& k, const EncodeJob& job, ref::ElementCounts& counts) noexcept {
  const bool per_row = job.format.granularity == Granularity::row;
  for (std::int64_t i = 0; i < job.layout.rows; ++i) {
    const float amax = per_row ? amax_of(k, job.row(i), job.layout.cols) : job.tensor_amax;
    const float encode = amax == 0.0f ? 1.0f : std::min(2688.0f / amax, FLT_MAX);
    const float decode = 1.0f / encode;
    ref::store_f32(job.out + job.layout.fp32_scale_offset + (per_row ? 4 * i : 0), decode);
    std::byte* scales = job.out + job.layout.block_scale_offset + i * job.layout.blocks_per_row;
    k.encode_nvfp4({job.row(i), job.layout.cols, encode, decode, as_bytes(scales), as_bytes(job.codes(i))}, counts);
  }
}

void decode_fp8(const Kernels& k, const DecodeJob& job) noexcept {
  const float* values = values_of(job.format.format == Format::e4m3 ? Element::e4m3 : Element::e5m2);
  const std::int64_t length = run_length(job.format, job.layout), cols = job.layout.cols;
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    std::int64_t run = 0;
    for (std::int64_t begin = 0; begin < cols; begin += length, ++run) {
      const std::int64_t position = scale_position(job.format, job.layout, i, run);
      const float scale = ref::load_f32(job.in + job.layout.fp32_scale_offset + 4 * position);
      k.decode_run(as_bytes(job.codes(i)) + begin, std::min(length, cols - begin), scale, values, job.row(i) + begin);
    }
  }
}

void decode_nvfp4(const Kernels& k, const DecodeJob& job) noexcept {
  constexpr std::int64_t block = 16;
  const bool per_row = job.format.granularity == Granularity::row;
  const float* values = values_of(Element::e2m1);
  const float* scale_values = values_of(Element::e4m3);
  for (std::int64_t i = job.row_begin; i < job.row_end; ++i) {
    const float global = ref::load_f32(job.in + job.layout.fp32_scale_offset + (per_row ? 4 * i : 0));
    const std::uint8_t* block_scales = as_bytes(job.in + job.layout.block_scale_offset + i * job.layout.blocks_per_row);
    for (std::int64_t begin = 0; begin < job.layout.cols; begin += block) {
      const std::int64_t count = std::min(block, job.layout.cols - begin);
      const std::uint8_t* packed = as_bytes(job.codes(i)) + begin / 2;
      std::uint8_t codes[block] = {};
      for (std::int64_t b = 0; b < (count + 1) / 2; ++b) {
        codes[2 * b] = packed[b] & 0xfu;
        codes[2 * b + 1] = packed[b] >> 4;
      }
      k.decode_run(codes, count, scale_values[block_scales[begin / block]] * global, values, job.row(i) + begin);
    }
  }
}

bool has_kernel(const FormatSpec& format) noexcept {
  return format.rounding == Rounding::rne &&
         (format.format == Format::e4m3 || format.format == Format::e5m2 || format.format == Format::nvfp4);
}

}  // namespace

void encode_with(const Kernels& k, const FormatSpec& format, const ElementLayout& layout, const float* x, std::int64_t first_row,
                 float tensor_amax, const RoundingKey& key, ref::Stage stage, std::byte* out, ref::ElementCounts* counts) {
  if (!has_kernel(format)) return ref::encode_elements(format, layout, x, first_row, tensor_amax, key, stage, out, counts);
  if (layout.total_bytes == 0) return;
  std::memset(out, 0, static_cast<std::size_t>(layout.code_offset));  // the gaps before the codes; codes are written whole
  const std::int64_t codes_end = layout.code_offset + layout.rows * layout.code_row_bytes;
  std::memset(out + codes_end, 0, static_cast<std::size_t>(layout.total_bytes - codes_end));
  ref::ElementCounts ignored;
  ref::ElementCounts& kept = counts != nullptr ? *counts : ignored;
  const EncodeJob job{format, layout, x, first_row, tensor_amax, key, stage, out, counts};
  return format.format == Format::nvfp4 ? encode_nvfp4(k, job, kept) : encode_fp8(k, job, kept);
}

void decode_with(const Kernels& k, const FormatSpec& format, const ElementLayout& layout, const std::byte* in,
                 std::int64_t row_begin, std::int64_t row_end, float* x) {
  FormatSpec nearest = format;
  nearest.rounding = Rounding::rne;  // decoding is the same for both
  if (!has_kernel(nearest)) return ref::decode_elements(format, layout, in, row_begin, row_end, x);
  if (layout.total_bytes == 0) return;
  const DecodeJob job{format, layout, in, row_begin, row_end, x};
  return format.format == Format::nvfp4 ? decode_nvfp4(k, job) : decode_fp8(k, job);
}

float finite_amax(const float* x, std::int64_t count) noexcept { return amax_of(kernels(), x, count); }

void encode_elements(const FormatSpec& format, const ElementLayout& layout, const float* x, std::int64_t first_row,
                     float tensor_amax, const RoundingKey& key, ref::Stage stage, std::byte* out, ref::ElementCounts* counts) {
  encode_with(kernels(), format, layout, x, first_row, tensor_amax, key, stage, out, counts);
}

void decode_elements(const FormatSpec& format, const ElementLayout& layout, const std::byte* in, std::int64_t row_begin,
                     std::int64_t row_end, float* x) {
  decode_with(kernels(), format, layout, in, row_begin, row_end, x);
}

void convert_values(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
                    std::span<const float> in, std::span<std::uint16_t> out) noexcept {
  const Kernels& k = kernels();
  const auto count = static_cast<std::int64_t>(in.size());
  if (rounding == Rounding::rne && element == Element::e4m3) return k.convert_e4m3(in.data(), count, out.data());
  if (rounding == Rounding::rne && element == Element::e5m2) return k.convert_e5m2(in.data(), count, out.data());
  if (rounding == Rounding::rne && element == Element::e2m1) return k.convert_e2m1(in.data(), count, out.data());
  ref::convert_values(element, rounding, key, first_index, in, out);
}

}  // namespace gift::fast
