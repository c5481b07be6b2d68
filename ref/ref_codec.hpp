// The element codecs of the scalar reference: rows of FP32 numbers to bytes and back, exactly as SPEC section 5 says.
// These functions are the specification; clarity comes before speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend.hpp"
#include "gift/codec.hpp"
#include "gift/format.hpp"

namespace gift::ref {

/// Stage of a stochastic draw (upper 16 bits of the second counter word).
enum class Stage : std::uint32_t { sender = 0, owner = 1, residual = 2 };

/// Philox4x32-10 (Salmon et al., SC'11): four random words for a counter and a 64-bit key.
void philox4x32(const std::uint32_t counter[4], std::uint64_t key, std::uint32_t out[4]) noexcept;
/// The word for logical element `index` of a tensor (SPEC "Rounding").
std::uint32_t random_word(const RoundingKey& key, Stage stage, std::uint64_t index) noexcept;

/// Single conversions, round to nearest even from the FP32 value, saturating; NaN and Inf as SPEC section 5 says.
std::uint8_t to_e4m3(float x) noexcept;
std::uint8_t to_e5m2(float x) noexcept;
std::uint8_t to_e2m1(float x) noexcept;        ///< low nibble
std::uint16_t to_bf16(float x) noexcept;       ///< finite values saturate at the largest finite BF16; Inf and NaN kept
std::uint16_t to_bf16_ieee(float x) noexcept;  ///< as a framework rounds: overflow gives Inf (callers' output)
std::uint16_t to_f16_ieee(float x) noexcept;
std::uint8_t to_e8m0_ceil(float quotient) noexcept;  ///< exponent of a non-negative FP32, plus one if the mantissa is not 0
float from_e4m3(std::uint8_t code) noexcept;
float from_e5m2(std::uint8_t code) noexcept;
float from_e2m1(std::uint8_t code) noexcept;
float from_e8m0(std::uint8_t code) noexcept;
float from_bf16(std::uint16_t code) noexcept;
float from_f16(std::uint16_t code) noexcept;
/// Stochastic: away from zero iff word < floor(frac * 2^32).
std::uint8_t to_e4m3_sr(float x, std::uint32_t word) noexcept;
std::uint8_t to_e5m2_sr(float x, std::uint32_t word) noexcept;
std::uint8_t to_e2m1_sr(float x, std::uint32_t word) noexcept;
std::uint16_t to_bf16_sr(float x, std::uint32_t word) noexcept;
/// The smallest E4M3 number that is not below a non-negative x, 448 at most: nvfp4's block scale under stochastic rounding.
std::uint8_t to_e4m3_up(float x) noexcept;

/// One conversion by name. `word` is looked at by Rounding::sr only; e8m0 (the ceil rule) and f16 (as IEEE says) are never
/// stochastic.
std::uint16_t convert_one(Element element, Rounding rounding, float x, std::uint32_t word) noexcept;
float expand_one(Element element, std::uint16_t code) noexcept;
/// Many of them, one code a value; in and out have equal lengths (Backend::convert and Backend::expand).
void convert_values(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
                    std::span<const float> in, std::span<std::uint16_t> out) noexcept;
void expand_codes(Element element, std::span<const std::uint16_t> in, std::span<float> out) noexcept;

/// Largest magnitude of the finite values of `count` numbers (0 if none): NaN and Inf are flagged elsewhere and must not spoil
/// other rows.
float finite_amax(const float* x, std::int64_t count) noexcept;

struct ElementCounts {
  std::uint64_t saturated = 0, top_codes = 0, bottom_codes = 0;
  bool operator==(const ElementCounts&) const = default;
};

/// Encodes a rows x cols shard whose first row is row `first_row` of the tensor (for stochastic rounding). `tensor_amax` is the
/// amax that a `tensor` granularity uses (the sender's whole tensor on leg 1, the shard on leg 2). Writes every byte of
/// layout.total_bytes.
void encode_elements(const FormatSpec& format, const ElementLayout& layout, const float* x, std::int64_t first_row,
                     float tensor_amax, const RoundingKey& key, Stage stage, std::byte* out, ElementCounts* counts);
/// Decodes rows [row_begin, row_end) of the shard into `x` ((row_end - row_begin) x cols).
void decode_elements(const FormatSpec& format, const ElementLayout& layout, const std::byte* in, std::int64_t row_begin,
                     std::int64_t row_end, float* x);

/// Subnormals on, round to nearest, for as long as it lives, whatever the host program set; then the host's settings again.
class FpEnvironment {
 public:
  FpEnvironment() noexcept;
  ~FpEnvironment();
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

 private:
  std::uint64_t saved_ = 0;
};

}  // namespace gift::ref
