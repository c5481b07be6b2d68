// Derived bounds on quantisation error; error_bound.hpp has the derivation.
#include "error_bound.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace gift {
namespace {

/// Relative size of everything that FP32 arithmetic adds around one rounding to a code.
constexpr double slack = 8 * 0x1p-24;

/// Mantissa bits, smallest spacing and largest value of an element type.
struct Grid {
  int mantissa_bits;
  double smallest_spacing;
  double largest;
};
constexpr Grid e4m3_grid{3, 0x1p-9, 448};
constexpr Grid e5m2_grid{2, 0x1p-16, 57344};
constexpr Grid e2m1_grid{1, 0.5, 6};
constexpr Grid bf16_grid{7, 0x1p-133, 0x1.FEp127};

double spacing(const Grid& grid, double magnitude) {
  if (magnitude <= 0) return grid.smallest_spacing;
  return std::max(std::ldexp(1.0, std::ilogb(magnitude) - grid.mantissa_bits), grid.smallest_spacing);
}

/// Largest loss of one value of this magnitude under multiplier m.
double loss(const Grid& grid, Rounding rounding, double magnitude, double m) {
  const double y = magnitude / m * (1 + slack);
  const double rounding_loss = spacing(grid, std::min(y, grid.largest)) * (rounding == Rounding::sr ? 1.0 : 0.5);
  return std::max(rounding_loss, y - grid.largest) * m + magnitude * slack;
}

double amax_of(const double* x, std::int64_t count) {
  double most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

/// b of nvfp4 for a wanted value: to nearest even, or up; 0 if it rounds to 0.
double block_scale(double wanted, Rounding rounding) {
  const double step = spacing(e4m3_grid, wanted);
  const double steps = wanted / step;
  return std::min(step * (rounding == Rounding::sr ? std::ceil(steps) : std::nearbyint(steps)), e4m3_grid.largest);
}

/// All multipliers that FP32 arithmetic could have arrived at for a block: one, or the two beside a boundary.
struct Multipliers {
  double low = 1, high = 1;
};

Multipliers float8_multiplier(const Grid& grid, double amax) {
  // s = largest / amax is clamped at FLT_MAX; with amax 0 every x is 0 and any multiplier does.
  const double s = amax > 0 ? std::min(grid.largest / amax, static_cast<double>(FLT_MAX)) : 1.0;
  return {1 / s, 1 / s};
}

Multipliers mx_multiplier(const Grid& grid, MxScale mode, double amax) {
  const auto one = [&](double a) {
    if (a <= 0) return 0x1p-127;
    int exponent = 0;
    if (mode == MxScale::ceil) {
      const double quotient = a / grid.largest;
      exponent = std::ilogb(quotient);
      if (std::ldexp(1.0, exponent) != quotient) ++exponent;
    } else {
      exponent = std::ilogb(a) - std::ilogb(grid.largest);
    }
    return std::ldexp(1.0, std::max(exponent, -127));
  };
  return {one(amax * (1 - slack)), one(amax * (1 + slack))};
}

Multipliers nvfp4_multiplier(Rounding rounding, double global_amax, double block_amax) {
  const double g = global_amax > 0 ? 1 / std::min(2688 / global_amax, static_cast<double>(FLT_MAX)) : 1.0;
  const double wanted = block_amax / (6 * g);
  return {g * block_scale(wanted * (1 - slack), rounding), g * block_scale(wanted * (1 + slack), rounding)};
}

const Grid& grid_of(Format format) {
  switch (format) {
    case Format::e5m2:
      return e5m2_grid;
    case Format::nvfp4:
    case Format::mxfp4:
      return e2m1_grid;
    case Format::bf16:
      return bf16_grid;
    default:
      return e4m3_grid;
  }
}

Multipliers multipliers(const FormatSpec& f, double tensor_amax, double row_amax, double block_amax) {
  switch (f.format) {
    case Format::nvfp4:
      return nvfp4_multiplier(f.rounding, f.granularity == Granularity::tensor ? tensor_amax : row_amax, block_amax);
    case Format::mxfp8:
    case Format::mxfp4:
      return mx_multiplier(grid_of(f.format), f.mx_scale, block_amax);
    case Format::e4m3:
    case Format::e5m2: {
      const double amax = f.granularity == Granularity::tensor ? tensor_amax
                          : f.granularity == Granularity::row  ? row_amax
                                                               : block_amax;
      return float8_multiplier(grid_of(f.format), amax);
    }
    default:
      return {};
  }
}

std::int64_t block_elems(const FormatSpec& f, std::int64_t cols) {
  if (f.format == Format::nvfp4) return 16;
  if (f.format == Format::mxfp8 || f.format == Format::mxfp4) return 32;
  return f.granularity == Granularity::block ? f.block : cols;
}

}  // namespace

void add_quantisation_bound(const FormatSpec& format, const double* x, std::int64_t rows, std::int64_t cols, double tensor_amax,
                            double factor, double* bound) {
  if (format.format == Format::fp32) return;  // travels as it is
  const Grid& grid = grid_of(format.format);
  const std::int64_t block = block_elems(format, cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double row_amax = amax_of(x + row * cols, cols);
    for (std::int64_t begin = 0; begin < cols; begin += block) {
      const std::int64_t end = std::min(begin + block, cols);
      const Multipliers m = multipliers(format, tensor_amax, row_amax, amax_of(x + row * cols + begin, end - begin));
      for (std::int64_t i = row * cols + begin; i < row * cols + end; ++i) {
        const double magnitude = std::abs(x[i]);
        const auto with = [&](double multiplier) {
          return multiplier > 0 ? loss(grid, format.rounding, magnitude, multiplier) : magnitude;
        };
        bound[i] += factor * std::max(with(m.low), with(m.high));
      }
    }
  }
}

std::vector<double> error_bound(const TensorPlan& tensor, std::span<const std::vector<double>> mapped,
                                const std::vector<double>& quantised) {
  std::vector<double> bound(quantised.size(), 0.0), magnitudes(quantised.size(), 0.0);
  const double share = tensor.op == ReduceOp::mean ? 1.0 / tensor.world : 1.0;
  for (const std::vector<double>& x : mapped) {
    const double tensor_amax = amax_of(x.data(), static_cast<std::int64_t>(x.size()));
    add_quantisation_bound(tensor.format, x.data(), tensor.rows, tensor.cols, tensor_amax, share, bound.data());
    for (std::size_t i = 0; i < x.size(); ++i) magnitudes[i] += share * std::abs(x[i]);
  }
  for (const PayloadLayout& p : tensor.leg2) {
    const std::int64_t begin = p.row_begin * tensor.cols, rows = p.row_end - p.row_begin;
    const double shard_amax = amax_of(quantised.data() + begin, rows * tensor.cols);
    add_quantisation_bound(tensor.format, quantised.data() + begin, rows, tensor.cols, shard_amax, 1.0, bound.data() + begin);
  }
  const double few = tensor.format.format == Format::fp32 ? 0 : 8;  // nothing is scaled there
  const double roundings = few + tensor.world + 2 * (tensor.rank_right() + tensor.rank_left());
  double largest = 0;
  for (const double m : magnitudes) largest = std::max(largest, m);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    // A map mixes elements, so its rounding is bounded by the largest magnitude there is; without one each element stays alone.
    const double meets = tensor.geometry.kind == GeometryKind::euclidean ? magnitudes[i] : largest;
    bound[i] += roundings * 0x1p-24 * meets;
  }
  return bound;
}

}  // namespace gift
