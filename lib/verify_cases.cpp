// The cases of `verify`: which formats, geometries, shapes, ranks and types go through the verbs; sums known exactly; golden
// encodings.
#include <algorithm>
#include <bit>
#include <cstring>

#include "verify_internal.hpp"

namespace gift::verification {
namespace {

const char* const formats[] = {"fp32",          "bf16",  "e4m3",        "e4m3:row",    "e4m3:tensor",
                               "e4m3:block:24", "e5m2",  "e5m2:row",    "e5m2:tensor", "nvfp4",
                               "nvfp4:tensor",  "mxfp8", "mxfp8:floor", "mxfp4",       "mxfp4:floor"};

struct Shape {
  std::int64_t rows, cols;
};

/// Odd sizes, short last blocks, more ranks than rows, empty matrices, one element.
const Shape shapes[] = {{1, 1}, {2, 17}, {7, 33}, {12, 130}, {9, 64}, {0, 16}, {3, 0}, {40, 300}};

Status check_format(Context& context, const std::string& label, const FormatSpec& format) {
  for (const Shape& shape : shapes) {
    for (const Fill fill : {Fill::moderate, Fill::extreme, Fill::zeros, Fill::midpoints, Fill::non_finite}) {
      for (const int world : {1, 3}) {
        Case c{.format = format,
               .geometry = {},
               .rows = shape.rows,
               .cols = shape.cols,
               .world = world,
               .op = ReduceOp::mean,
               .dtype = Dtype::f32,
               .fill = fill,
               .feedback = fill != Fill::extreme};
        if (Status s = check_verbs(context, label, c); !s.ok()) return s;
      }
    }
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      const Case c{.format = format,
                   .geometry = {},
                   .rows = shape.rows,
                   .cols = shape.cols,
                   .world = 2,
                   .op = ReduceOp::sum,
                   .dtype = dtype,
                   .fill = Fill::moderate,
                   .feedback = false};
      if (Status s = check_verbs(context, label, c); !s.ok()) return s;
    }
  }
  return Status();
}

struct Map {
  GeometryKind kind;
  Side side;
};
const Map maps[] = {{GeometryKind::hadamard, Side::right}, {GeometryKind::whiten, Side::right},
                    {GeometryKind::whiten, Side::left},    {GeometryKind::whiten, Side::both},
                    {GeometryKind::deflate, Side::right},  {GeometryKind::deflate, Side::left},
                    {GeometryKind::deflate, Side::both}};

Status check_geometry(Context& context, const std::string& label, const GeometrySpec& geometry) {
  for (const char* text : {"bf16", "e4m3", "e4m3:tensor", "nvfp4", "mxfp4:sr"}) {
    const FormatSpec format = parse_format(text).value();
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 18}, Shape{24, 48}, Shape{33, 130}}) {
      for (const Fill fill : {Fill::moderate, Fill::zeros, Fill::non_finite}) {
        for (const int world : {1, 2, 5}) {
          const Case c{.format = format,
                       .geometry = geometry,
                       .rows = shape.rows,
                       .cols = shape.cols,
                       .world = world,
                       .op = world == 2 ? ReduceOp::sum : ReduceOp::mean,
                       .dtype = world == 5 ? Dtype::bf16 : Dtype::f32,
                       .fill = fill,
                       .feedback = world != 2};
          if (Status s = check_verbs(context, label, c); !s.ok()) return s;
        }
      }
    }
  }
  return Status();
}

/// Numbers that the format holds exactly, and so are their sums over 1, 2 and 4 ranks that all send the same.
std::vector<float> exact_numbers(Format format, std::int64_t count) {
  static constexpr float fp4[] = {6, 0, -0.5f, 1, 1.5f, -2, 3, 4};
  static constexpr float fp8[] = {7, 0, -1, 2, 3, -4, 5, 6};
  const bool is_fp4 = format == Format::nvfp4 || format == Format::mxfp4;
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) x.push_back((is_fp4 ? fp4 : fp8)[i % 8]);
  return x;
}

/// The whole way of one tensor on the backend: encode on each rank, sum, decode.
Status reduce_alone(const Backend& backend, const TensorPlan& plan, const std::vector<float>& x, std::vector<float>& out) {
  using Bytes = std::vector<std::byte>;
  std::vector<std::vector<Bytes>> sent(static_cast<std::size_t>(plan.world));
  EncodeStats stats;
  for (auto& payloads : sent) {
    std::vector<std::byte*> targets;
    for (const PayloadLayout& layout : plan.leg1) payloads.emplace_back(static_cast<std::size_t>(layout.total_bytes));
    for (Bytes& payload : payloads) targets.push_back(payload.data());
    EncodeArgs args;
    args.tensor = &plan;
    args.input = x.data();
    args.payloads = targets;
    args.stats = &stats;
    if (Status s = backend.encode(args); !s.ok()) return s;
  }
  std::vector<Bytes> gathered;
  for (std::size_t shard = 0; shard < sent.size(); ++shard) {
    const PayloadLayout& layout = plan.leg2[shard];
    gathered.emplace_back(static_cast<std::size_t>(layout.total_bytes));
    std::vector<float> quantised(static_cast<std::size_t>((layout.row_end - layout.row_begin) * plan.cols));
    std::vector<const std::byte*> incoming;
    for (const auto& payloads : sent) incoming.push_back(payloads[shard].data());
    ReduceArgs args;
    args.tensor = &plan;
    args.shard = static_cast<int>(shard);
    args.payloads = incoming;
    args.quantised = quantised.data();
    args.payload = gathered.back().data();
    args.stats = &stats;
    if (Status s = backend.reduce(args); !s.ok()) return s;
  }
  std::vector<const std::byte*> in;
  for (const Bytes& payload : gathered) in.push_back(payload.data());
  DecodeArgs args;
  args.tensor = &plan;
  args.payloads = in;
  args.output = out.data();
  return backend.decode(args);
}

}  // namespace

Status verify_formats(Context& context) {
  std::int64_t done = 0;
  for (const char* text : formats) {
    for (const bool stochastic : {false, true}) {
      if (stochastic && std::string_view(text) == "fp32") continue;
      const std::string label = std::string(text) + (stochastic ? ":sr" : "");
      context.report(done++, 2 * static_cast<std::int64_t>(std::size(formats)), "formats: " + label);
      if (Status s = check_format(context, label, parse_format(label).value()); !s.ok()) return s;
    }
  }
  return Status();
}

Status verify_geometries(Context& context) {
  std::int64_t done = 0;
  for (const Map& map : maps) {
    const std::string label = std::string(geometry_name(map.kind)) + " " + side_name(map.side);
    context.report(done++, static_cast<std::int64_t>(std::size(maps)), "geometries: " + label);
    GeometrySpec geometry;
    geometry.kind = map.kind;
    geometry.side = map.side;
    geometry.rank = map.kind == GeometryKind::hadamard ? 0 : 5;
    if (Status s = check_geometry(context, label, geometry); !s.ok()) return s;
  }
  return Status();
}

Status verify_sums(Context& context) {
  constexpr std::int64_t rows = 12, cols = 136;
  for (const char* text : formats) {
    const FormatSpec format = parse_format(text).value();
    if (format.mx_scale == MxScale::floor) continue;  // 7 * 2^k saturates under OCP's rule in E4M3
    for (const int world : {1, 2, 4}) {
      Result<TensorPlan> plan =
          plan_tensor({"verify", {rows, cols}, Dtype::f32}, format, {}, nullptr, false, ReduceOp::sum, world);
      if (!plan.ok()) return plan.status();
      const std::vector<float> x = exact_numbers(format.format, rows * cols);
      std::vector<float> sum(x.size(), 1.5e33f), expected;
      for (const float value : x) expected.push_back(value * static_cast<float>(world));
      if (Status s = reduce_alone(context.subject, *plan, x, sum); !s.ok()) return s;
      // A zero of either sign is the exact sum: FP4 has no reason to keep the sign.
      for (float& value : sum) value += 0.0f;
      for (float& value : expected) value += 0.0f;
      compare_floats(context.row(std::string(text) + " sum", "exact sum"), sum, expected, std::to_string(world) + " ranks");
    }
  }
  return Status();
}

}  // namespace gift::verification
