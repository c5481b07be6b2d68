// Inputs, bases, cases and buffers of the pipeline tests.
#include "pipeline_kit.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.hpp"
#include "ref_codec.hpp"

namespace kit {

using gift::GeometryKind;
using gift::Side;

std::uint64_t Random::bits() {  // SplitMix64 (Steele, Lea and Flood, 2014)
  state_ += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

float Random::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return static_cast<float>(sum);
}

Floats gradient(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Random random(seed);
  constexpr int strong = 2;
  Floats left(static_cast<std::size_t>(rows * strong)), right(static_cast<std::size_t>(cols * strong));
  for (float& v : left) v = random.normal();
  for (float& v : right) v = random.normal();
  Floats x(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < cols; ++k) {
      float value = 0.1f * random.normal();
      for (int j = 0; j < strong; ++j)
        value += left[static_cast<std::size_t>(i * strong + j)] * right[static_cast<std::size_t>(k * strong + j)];
      x[static_cast<std::size_t>(i * cols + k)] = value * 0.01f;
    }
  }
  return x;
}

Floats orthonormal(std::int64_t dim, std::int32_t rank, std::uint64_t seed) {
  Random random(seed);
  std::vector<Doubles> columns;
  while (columns.size() < static_cast<std::size_t>(rank)) {
    Doubles v(static_cast<std::size_t>(dim));
    for (double& value : v) value = static_cast<double>(random.normal());
    for (int pass = 0; pass < 2; ++pass) {
      for (const Doubles& u : columns) {
        double dot = 0;
        for (std::size_t i = 0; i < v.size(); ++i) dot += v[i] * u[i];
        for (std::size_t i = 0; i < v.size(); ++i) v[i] -= dot * u[i];
      }
    }
    double norm = 0;
    for (const double value : v) norm += value * value;
    for (double& value : v) value /= std::sqrt(norm);
    columns.push_back(v);
  }
  Floats u(static_cast<std::size_t>(dim * rank));
  for (std::int64_t i = 0; i < dim; ++i) {
    for (std::int32_t j = 0; j < rank; ++j) {
      u[static_cast<std::size_t>(i * rank + j)] =
          static_cast<float>(columns[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)]);
    }
  }
  return u;
}

namespace {

gift::SideBasis make_side(GeometryKind kind, std::int64_t dim, std::int32_t rank, std::uint64_t seed) {
  gift::SideBasis side;
  side.dim = dim;
  side.rank = rank;
  side.u = orthonormal(dim, rank, seed);
  for (std::int32_t j = 0; j < rank; ++j) side.eigenvalues.push_back(8.0 * (rank - j));
  side.trace = 8.0 * rank * (rank + 1) / 2 + static_cast<double>(dim - rank);
  if (kind == GeometryKind::whiten) {
    REQUIRE(gift::whiten_scales(side.eigenvalues, side.trace, dim, 0.5, 0.5, side.d, side.d_inv).ok());
  }
  return side;
}

}  // namespace

gift::LayerBasisPtr make_basis(GeometryKind kind, Side side, std::int64_t rows, std::int64_t cols, std::int32_t rank,
                               std::uint64_t seed) {
  if (kind != GeometryKind::whiten && kind != GeometryKind::deflate) return nullptr;
  gift::LayerBasis basis;
  basis.kind = kind;
  basis.side = side;
  if (gift::has_right(side)) basis.right = make_side(kind, cols, rank, seed);
  if (gift::has_left(side)) basis.left = make_side(kind, rows, rank, seed + 1);
  const gift::Status sealed = basis.seal();
  INFO(sealed.message());
  REQUIRE(sealed.ok());
  return std::make_shared<const gift::LayerBasis>(basis);
}

std::string describe(const Case& c) {
  return c.format + " " + gift::geometry_name(c.kind) + " " + gift::side_name(c.side) + " " + std::to_string(c.rows) + " x " +
         std::to_string(c.cols) + " rank " + std::to_string(c.rank) + " world " + std::to_string(c.world) +
         (c.feedback ? " feedback" : "") + (c.op == gift::ReduceOp::sum ? " sum" : " mean") + " " + gift::dtype_name(c.dtype);
}

gift::TensorPlan plan_of(const Case& c, gift::LayerBasisPtr basis) {
  INFO(describe(c));
  gift::Result<gift::FormatSpec> format = gift::parse_format(c.format);
  REQUIRE(format.ok());
  gift::GeometrySpec geometry;
  geometry.kind = c.kind;
  geometry.side = c.side;
  geometry.rank = c.rank;
  gift::TensorDesc desc{"weight", {c.rows, c.cols}, c.dtype};
  gift::Result<gift::TensorPlan> plan = gift::plan_tensor(desc, *format, geometry, basis, c.feedback, c.op, c.world);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *plan;
}

gift::TensorPlan plan_of(const Case& c) {
  const std::int32_t rank = static_cast<std::int32_t>(std::min<std::int64_t>({c.rank, c.rows, c.cols}));
  const bool empty = c.rows * c.cols == 0;
  return plan_of(c, empty ? nullptr : make_basis(c.kind, c.side, c.rows, c.cols, rank, c.basis_seed));
}

const std::vector<std::string>& all_formats() {
  static const std::vector<std::string> formats = {"bf16",         "e4m3",        "e4m3:tensor", "e4m3:row",    "e4m3:block:16",
                                                   "e5m2",         "e5m2:tensor", "mxfp8",       "mxfp8:floor", "nvfp4",
                                                   "nvfp4:tensor", "mxfp4",       "mxfp4:floor", "e4m3:sr",     "e5m2:row:sr",
                                                   "mxfp8:sr",     "nvfp4:sr",    "mxfp4:sr",    "fp32"};
  return formats;
}

const std::vector<Map>& all_maps() {
  static const std::vector<Map> maps = {{GeometryKind::euclidean, Side::none}, {GeometryKind::hadamard, Side::right},
                                        {GeometryKind::whiten, Side::right},   {GeometryKind::whiten, Side::left},
                                        {GeometryKind::whiten, Side::both},    {GeometryKind::deflate, Side::right},
                                        {GeometryKind::deflate, Side::left},   {GeometryKind::deflate, Side::both}};
  return maps;
}

namespace {
constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard{0xA5};
}  // namespace

Guarded::Guarded(std::size_t bytes, std::size_t shift, std::byte poison)
    : bytes_(bytes), start_(guard_bytes + shift), storage_(bytes + start_ + guard_bytes, guard) {
  std::fill_n(storage_.begin() + static_cast<std::ptrdiff_t>(start_), bytes_, poison);
}

bool Guarded::intact() const {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    if ((i < start_ || i >= start_ + bytes_) && storage_[i] != guard) return false;
  }
  return true;
}

Bytes to_dtype(const Floats& values, gift::Dtype dtype) {
  Bytes bytes(values.size() * static_cast<std::size_t>(gift::dtype_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == gift::Dtype::f32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t code =
          dtype == gift::Dtype::bf16 ? gift::ref::to_bf16_ieee(values[i]) : gift::ref::to_f16_ieee(values[i]);
      std::memcpy(bytes.data() + 2 * i, &code, 2);
    }
  }
  return bytes;
}

Floats from_dtype(const std::byte* bytes, std::int64_t count, gift::Dtype dtype) {
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == gift::Dtype::f32) {
      std::memcpy(&values[i], bytes + 4 * i, 4);
    } else {
      std::uint16_t code = 0;
      std::memcpy(&code, bytes + 2 * i, 2);
      values[i] = dtype == gift::Dtype::bf16 ? gift::ref::from_bf16(code) : gift::ref::from_f16(code);
    }
  }
  return values;
}

}  // namespace kit
