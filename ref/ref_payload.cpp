// The caller's buffers and the parts of a payload as FP32 numbers. Everything goes through memcpy: no address has to be aligned.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ref_pipeline.hpp"

namespace gift::ref {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian, and so are all hosts libgift builds for");

namespace {

float load_f32(const std::byte* at) noexcept {
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint16_t load_u16(const std::byte* at) noexcept {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store_f32(std::byte* at, float value) noexcept { std::memcpy(at, &value, sizeof value); }
void store_u16(std::byte* at, std::uint16_t value) noexcept { std::memcpy(at, &value, sizeof value); }

}  // namespace

Floats load_matrix(const TensorPlan& t, const void* data) {
  Floats x(static_cast<std::size_t>(t.elements()));
  if (x.empty()) return x;
  if (t.dtype == Dtype::f32) {
    std::memcpy(x.data(), data, x.size() * sizeof(float));
    return x;
  }
  const auto* bytes = static_cast<const std::byte*>(data);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint16_t code = load_u16(bytes + 2 * i);
    x[i] = t.dtype == Dtype::bf16 ? from_bf16(code) : from_f16(code);
  }
  return x;
}

void store_matrix(const TensorPlan& t, const Floats& x, void* data, std::uint64_t* overflowed) {
  std::uint64_t lost = 0;
  auto* bytes = static_cast<std::byte*>(data);
  if (t.dtype == Dtype::f32) {
    if (!x.empty()) std::memcpy(bytes, x.data(), x.size() * sizeof(float));
  } else {
    const bool bf16 = t.dtype == Dtype::bf16;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint16_t code = bf16 ? to_bf16_ieee(x[i]) : to_f16_ieee(x[i]);
      if (std::isfinite(x[i]) && std::isinf(bf16 ? from_bf16(code) : from_f16(code))) ++lost;
      store_u16(bytes + 2 * i, code);
    }
  }
  if (overflowed != nullptr) *overflowed = lost;
}

void store_nan(const TensorPlan& t, void* data) {
  const Floats nan(static_cast<std::size_t>(t.elements()), std::numeric_limits<float>::quiet_NaN());
  store_matrix(t, nan, data, nullptr);
}

void write_s_right(const TensorPlan& t, const PayloadLayout& p, const float* shard_rows, std::byte* payload) {
  const std::int64_t n = (p.row_end - p.row_begin) * t.rank_right();
  std::byte* out = payload + p.s_right_offset;
  for (std::int64_t i = 0; i < n; ++i) store_u16(out + 2 * i, to_bf16(shard_rows[i]));
}

void read_s_right(const TensorPlan& t, const PayloadLayout& p, const std::byte* payload, float* shard_rows) {
  const std::int64_t n = (p.row_end - p.row_begin) * t.rank_right();
  const std::byte* in = payload + p.s_right_offset;
  for (std::int64_t i = 0; i < n; ++i) shard_rows[i] = from_bf16(load_u16(in + 2 * i));
}

void write_s_left(const TensorPlan& t, const PayloadLayout& p, const Floats& s_left, std::byte* payload) {
  std::byte* out = payload + p.s_left_offset;
  for (std::int64_t j = 0; j < t.rank_left(); ++j) {
    for (std::int64_t c = p.col_begin; c < p.col_end; ++c, out += p.s_left_elem_bytes) {
      const float value = s_left[static_cast<std::size_t>(j * t.cols + c)];
      if (p.s_left_elem_bytes == 4) {
        store_f32(out, value);
      } else {
        store_u16(out, to_bf16(value));
      }
    }
  }
}

void read_s_left(const TensorPlan& t, const PayloadLayout& p, const std::byte* payload, Floats& s_left) {
  const std::byte* in = payload + p.s_left_offset;
  for (std::int64_t j = 0; j < t.rank_left(); ++j) {
    for (std::int64_t c = p.col_begin; c < p.col_end; ++c, in += p.s_left_elem_bytes) {
      s_left[static_cast<std::size_t>(j * t.cols + c)] = p.s_left_elem_bytes == 4 ? load_f32(in) : from_bf16(load_u16(in));
    }
  }
}

void write_bitmap(const PayloadLayout& p, const std::uint8_t* shard_rows, std::byte* payload) {
  std::byte* out = payload + p.bitmap_offset;
  for (std::int64_t i = 0; i < p.row_end - p.row_begin; ++i) {
    if (shard_rows[i] != 0) out[i / 8] |= static_cast<std::byte>(1u << (i % 8));
  }
}

bool row_bit(const PayloadLayout& p, const std::byte* payload, std::int64_t shard_row) noexcept {
  const std::byte bits = payload[p.bitmap_offset + shard_row / 8];
  return (std::to_integer<unsigned>(bits) >> (shard_row % 8) & 1u) != 0;
}

Gathered gather(const Kernels& k, const TensorPlan& t, int leg, std::span<const std::byte* const> payloads) {
  Gathered g;
  g.elements.resize(static_cast<std::size_t>(t.elements()));
  g.zero_rows.assign(static_cast<std::size_t>(t.rows), 0);
  if (t.deflates() && has_right(t.geometry.side)) g.s.s_right.resize(static_cast<std::size_t>(t.rows * t.rank_right()));
  if (t.deflates() && has_left(t.geometry.side)) g.s.s_left.resize(static_cast<std::size_t>(t.rank_left() * t.cols));
  const std::vector<PayloadLayout>& layouts = leg == 1 ? t.leg1 : t.leg2;
  for (std::size_t shard = 0; shard < layouts.size(); ++shard) {
    const PayloadLayout& p = layouts[shard];
    const std::byte* payload = payloads[shard];
    const std::int64_t rows = p.row_end - p.row_begin;
    if (rows > 0) k.decode_elements(t.format, p.elem, payload + p.elem_offset, 0, rows, g.elements.data() + p.row_begin * t.cols);
    if (!g.s.s_right.empty() && rows > 0) read_s_right(t, p, payload, g.s.s_right.data() + p.row_begin * t.rank_right());
    if (!g.s.s_left.empty()) read_s_left(t, p, payload, g.s.s_left);
    for (std::int64_t i = 0; t.mixes_rows() && i < rows; ++i) {
      g.zero_rows[static_cast<std::size_t>(p.row_begin + i)] = row_bit(p, payload, i) ? 1 : 0;
    }
  }
  return g;
}

}  // namespace gift::ref
