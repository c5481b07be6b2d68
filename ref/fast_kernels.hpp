// Loops over runs and rows of elements, compiled once for each instruction set (fast_kernels.cpp), and the table that holds them.
#pragma once

#include <cstdint>
#include <span>

#include "ref_codec.hpp"

namespace gift::fast {

/// One row of nvfp4: its elements, its scales, where its parts go.
struct Nvfp4Row {
  const float* x;
  std::int64_t cols;
  float encode_scale;          ///< S
  float decode_scale;          ///< g
  std::uint8_t* block_scales;  ///< one a block of 16
  std::uint8_t* codes;         ///< two a byte
};

struct Kernels {
  const char* name;
  std::uint32_t (*amax_bits)(const float* x, std::int64_t count);
  /// One code a byte under one scale.
  void (*encode_e4m3)(const float* x, std::int64_t count, float scale, std::uint8_t* codes, ref::ElementCounts& counts);
  void (*encode_e5m2)(const float* x, std::int64_t count, float scale, std::uint8_t* codes, ref::ElementCounts& counts);
  void (*encode_nvfp4)(const Nvfp4Row& row, ref::ElementCounts& counts);
  /// values[code] * scale, as ref's decoded_value.
  void (*decode_run)(const std::uint8_t* codes, std::int64_t count, float scale, const float* values, float* x);
  /// One nearest code a value.
  void (*convert_e4m3)(const float* x, std::int64_t count, std::uint16_t* codes);
  void (*convert_e5m2)(const float* x, std::int64_t count, std::uint16_t* codes);
  void (*convert_e2m1)(const float* x, std::int64_t count, std::uint16_t* codes);
};

/// The best that this processor runs; chosen once.
const Kernels& kernels() noexcept;
/// All that this processor runs, the plain one first, for the tests.
std::span<const Kernels* const> available_kernels() noexcept;

/// The verbs of ref_codec.hpp over a table of kernels; what has no fast kernel yet goes to the reference.
void encode_with(const Kernels& kernels, const FormatSpec& format, const ElementLayout& layout, const float* x,
                 std::int64_t first_row, float tensor_amax, const RoundingKey& key, ref::Stage stage, std::byte* out,
                 ref::ElementCounts* counts);
void decode_with(const Kernels& kernels, const FormatSpec& format, const ElementLayout& layout, const std::byte* in,
                 std::int64_t row_begin, std::int64_t row_end, float* x);

/// The same over kernels(): what the default backend uses.
float finite_amax(const float* x, std::int64_t count) noexcept;
void encode_elements(const FormatSpec& format, const ElementLayout& layout, const float* x, std::int64_t first_row,
                     float tensor_amax, const RoundingKey& key, ref::Stage stage, std::byte* out, ref::ElementCounts* counts);
void decode_elements(const FormatSpec& format, const ElementLayout& layout, const std::byte* in, std::int64_t row_begin,
                     std::int64_t row_end, float* x);
void convert_values(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
                    std::span<const float> in, std::span<std::uint16_t> out) noexcept;

}  // namespace gift::fast
