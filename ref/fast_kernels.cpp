// The loops, written once as templates that are always inlined, and wrapped once for each instruction set. Which one runs is
// found at run time; all give the same bytes, since every operation in them is an integer one or a single correctly rounded FP32
// one.
#include "fast_kernels.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstring>

#include "fast_minifloat.hpp"

namespace gift::fast {
namespace {

/// Elements a step: enough that the vectoriser sees a loop and does not unroll it away; nvfp4 goes block by block.
constexpr std::int64_t run_lanes = 64, block_lanes = 16;
constexpr int byte_sign_shift = 24, nibble_sign_shift = 28;

/// Calls `body(pointer to `lanes` elements, position, how many of them count)` along a run; the last ones come from a copy padded
/// with zeros, so that the tail goes through the same code as the body.
template <std::int64_t lanes, class Body>
GIFT_INLINE void for_lanes(const float* x, std::int64_t count, Body body) noexcept {
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) body(x + j, j, lanes);
  if (j == count) return;
  float padded[lanes] = {};
  std::memcpy(padded, x + j, static_cast<std::size_t>(count - j) * sizeof(float));
  body(padded, j, count - j);
}

GIFT_INLINE std::uint32_t amax_run(const float* x, std::int64_t count) noexcept {
  std::uint32_t largest = 0;
  for_lanes<run_lanes>(x, count, [&](const float* at, std::int64_t, std::int64_t) GIFT_INLINE_LAMBDA {
    largest = amax_lanes<run_lanes>(at, largest);
  });
  return largest;
}

template <class T>
GIFT_INLINE void encode_run(const float* x, std::int64_t count, float scale, std::uint8_t* codes,
                            ref::ElementCounts& total) noexcept {
  constexpr std::int64_t piece = std::int64_t{1} << 30;  // 32-bit counters hold this many
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    RunCounts counts;
    for_lanes<run_lanes>(x + begin, std::min(piece, count - begin),
                         [&](const float* at, std::int64_t j, std::int64_t used) GIFT_INLINE_LAMBDA {
                           std::uint8_t out[run_lanes];
                           encode_lanes<T, run_lanes>(at, scale, byte_sign_shift, out, counts);
                           std::memcpy(codes + begin + j, out, static_cast<std::size_t>(used));
                         });
    total.saturated += counts.saturated;
    total.top_codes += counts.top_codes;
    total.bottom_codes += counts.bottom_codes;
  }
}

/// The order of operations is that of ref_nvfp4.cpp.
GIFT_INLINE void encode_nvfp4_row(const Nvfp4Row& row, ref::ElementCounts& total) noexcept {
  const float factor = row.encode_scale * (1.0f / 6.0f);
  RunCounts counts;
  for_lanes<block_lanes>(row.x, row.cols, [&](const float* at, std::int64_t j, std::int64_t used) GIFT_INLINE_LAMBDA {
    const float amax = std::bit_cast<float>(amax_lanes<block_lanes>(at, 0));
    const float wanted = std::min(amax * factor, FLT_MAX);
    const std::uint32_t b = convert_one<E4m3>(std::bit_cast<std::uint32_t>(wanted), byte_sign_shift);
    row.block_scales[j / block_lanes] = static_cast<std::uint8_t>(b);
    const float d = ref::from_e4m3(static_cast<std::uint8_t>(b)) * row.decode_scale;
    const float enc = b == 0 ? 0.0f : std::min(1.0f / d, FLT_MAX);
    std::uint8_t codes[block_lanes], bytes[block_lanes / 2];
    encode_lanes<E2m1, block_lanes>(at, enc, nibble_sign_shift, codes, counts);
    for (int k = 0; k < block_lanes / 2; ++k) bytes[k] = static_cast<std::uint8_t>(codes[2 * k] | (codes[2 * k + 1] << 4));
    if (b == 0) std::memset(bytes, 0, sizeof bytes);
    std::memcpy(row.codes + j / 2, bytes, static_cast<std::size_t>((used + 1) / 2));
  });
  total.saturated += counts.saturated;
  total.top_codes += counts.top_codes;
  total.bottom_codes += counts.bottom_codes;
}

GIFT_INLINE void decode_values(const std::uint8_t* codes, std::int64_t count, float scale, const float* values,
                               float* x) noexcept {
  const bool finite_scale = magnitude_bits(scale) < infinity_bits;
  for (std::int64_t j = 0; j < count; ++j) {
    const float value = values[codes[j]];
    const float product = value * scale;
    const bool overflowed = finite_scale && magnitude_bits(product) == infinity_bits && magnitude_bits(value) < infinity_bits;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(product) & 0x80000000u;
    x[j] = overflowed ? std::bit_cast<float>(sign | (infinity_bits - 1u)) : product;
  }
}

template <class T>
GIFT_INLINE void convert_run(const float* x, std::int64_t count, int sign_shift, std::uint16_t* codes) noexcept {
  for_lanes<run_lanes>(x, count, [&](const float* at, std::int64_t j, std::int64_t used) GIFT_INLINE_LAMBDA {
    std::uint16_t out[run_lanes];
    for (int k = 0; k < run_lanes; ++k) {
      out[k] = static_cast<std::uint16_t>(convert_one<T>(std::bit_cast<std::uint32_t>(at[k]), sign_shift));
    }
    std::memcpy(codes + j, out, static_cast<std::size_t>(used) * sizeof(std::uint16_t));
  });
}

/// One set of kernels; `ATTRIBUTE` names the instructions that the compiler may use in it.
#define GIFT_KERNELS(SET, NAME, ATTRIBUTE)                                                                        \
  struct SET {                                                                                                    \
    ATTRIBUTE static std::uint32_t amax(const float* x, std::int64_t n) { return amax_run(x, n); }                \
    ATTRIBUTE static void e4m3(const float* x, std::int64_t n, float s, std::uint8_t* c, ref::ElementCounts& t) { \
      encode_run<E4m3>(x, n, s, c, t);                                                                            \
    }                                                                                                             \
    ATTRIBUTE static void e5m2(const float* x, std::int64_t n, float s, std::uint8_t* c, ref::ElementCounts& t) { \
      encode_run<E5m2>(x, n, s, c, t);                                                                            \
    }                                                                                                             \
    ATTRIBUTE static void nvfp4(const Nvfp4Row& row, ref::ElementCounts& t) { encode_nvfp4_row(row, t); }         \
    ATTRIBUTE static void decode(const std::uint8_t* c, std::int64_t n, float s, const float* v, float* x) {      \
      decode_values(c, n, s, v, x);                                                                               \
    }                                                                                                             \
    ATTRIBUTE static void to_e4m3(const float* x, std::int64_t n, std::uint16_t* c) {                             \
      convert_run<E4m3>(x, n, byte_sign_shift, c);                                                                \
    }                                                                                                             \
    ATTRIBUTE static void to_e5m2(const float* x, std::int64_t n, std::uint16_t* c) {                             \
      convert_run<E5m2>(x, n, byte_sign_shift, c);                                                                \
    }                                                                                                             \
    ATTRIBUTE static void to_e2m1(const float* x, std::int64_t n, std::uint16_t* c) {                             \
      convert_run<E2m1>(x, n, nibble_sign_shift, c);                                                              \
    }                                                                                                             \
    static constexpr Kernels table = {NAME, amax, e4m3, e5m2, nvfp4, decode, to_e4m3, to_e5m2, to_e2m1};          \
  };

GIFT_KERNELS(Plain, "baseline", )
#if defined(__x86_64__)
GIFT_KERNELS(Avx2, "AVX2", __attribute__((target("avx2"))))
GIFT_KERNELS(Avx512, "AVX-512", __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512dq"))))
#endif
#undef GIFT_KERNELS

struct Available {
  std::array<const Kernels*, 3> list{};
  std::size_t count = 0;
  Available() noexcept {
    list[count++] = &Plain::table;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) list[count++] = &Avx2::table;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      list[count++] = &Avx512::table;
    }
#endif
  }
};

const Available& available() noexcept {
  static const Available found;
  return found;
}

}  // namespace

const Kernels& kernels() noexcept { return *available().list[available().count - 1]; }

std::span<const Kernels* const> available_kernels() noexcept { return std::span(available().list).first(available().count); }

}  // namespace gift::fast
