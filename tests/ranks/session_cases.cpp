// Inputs and the reference of the session tests.
#include "session_cases.hpp"

#include <cmath>
#include <cstring>

#include "ref_codec.hpp"

namespace gift::tests {

std::uint64_t Random::word() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
double Random::uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }
double Random::bell() {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum - 6;
}

SideBasis random_side(std::int64_t dim, std::int32_t rank, std::uint64_t seed) {
  Random random(seed);
  const auto n = static_cast<std::size_t>(dim), r = static_cast<std::size_t>(rank);
  std::vector<std::vector<double>> columns(r, std::vector<double>(n));
  for (std::size_t j = 0; j < r; ++j) {
    for (double& value : columns[j]) value = random.bell();
    for (int twice = 0; twice < 2; ++twice)
      for (std::size_t k = 0; k < j; ++k) {
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i) dot += columns[j][i] * columns[k][i];
        for (std::size_t i = 0; i < n; ++i) columns[j][i] -= dot * columns[k][i];
      }
    double norm = 0;
    for (const double value : columns[j]) norm += value * value;
    for (double& value : columns[j]) value /= std::sqrt(norm);
  }
  SideBasis side;
  side.dim = dim;
  side.rank = rank;
  side.u.resize(n * r);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < r; ++j) side.u[i * r + j] = static_cast<float>(columns[j][i]);
  for (std::size_t j = 0; j < r; ++j) side.eigenvalues.push_back(100.0 / static_cast<double>(j + 1));
  side.trace = 200.0 + static_cast<double>(dim);
  return side;
}

LayerBasisPtr random_basis(const GeometrySpec& spec, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  if (spec.kind != GeometryKind::whiten && spec.kind != GeometryKind::deflate) return nullptr;
  auto basis = std::make_shared<LayerBasis>();
  basis->kind = spec.kind;
  basis->side = spec.side;
  if (has_right(spec.side)) basis->right = random_side(cols, spec.rank, seed);
  if (has_left(spec.side)) basis->left = random_side(rows, spec.rank, seed + 1);
  for (SideBasis* side : {&basis->right, &basis->left})
    if (side->rank > 0 && spec.kind == GeometryKind::whiten)
      if (!whiten_scales(side->eigenvalues, side->trace, side->dim, spec.exponent, spec.damping, side->d, side->d_inv).ok())
        return nullptr;
  if (!basis->seal().ok()) return nullptr;
  return basis;
}

std::vector<GeometrySpec> all_geometries() {
  std::vector<GeometrySpec> all = {{}};
  all.push_back({GeometryKind::hadamard, Side::right, 0, 0.5, 1.0, 0});
  for (const GeometryKind kind : {GeometryKind::whiten, GeometryKind::deflate})
    for (const Side side : {Side::right, Side::left, Side::both}) all.push_back({kind, side, 3, 0.5, 1.0, 0});
  return all;
}

std::vector<std::string> all_formats() {
  return {"fp32",          "bf16",  "e4m3",  "e4m3:tensor",     "e4m3:row:sr",
          "e5m2:block:16", "mxfp8", "nvfp4", "nvfp4:tensor:sr", "mxfp4:floor"};
}

World make_world(const std::string& format, const GeometrySpec& geometry, bool error_feedback, ReduceOp op, Dtype dtype) {
  World world;
  world.recipe.format = parse_format(format).value();
  world.recipe.error_feedback = error_feedback;
  world.recipe.op = op;
  world.recipe.seed = 42;
  world.recipe.exempt_below = 8;
  Rule mapped;
  mapped.match = "mapped*";
  mapped.geometry = geometry;
  world.recipe.rules = {mapped};
  world.tensors = {{"mapped.fc", {12, 40}, dtype}, {"mapped.experts", {2, 5, 24}, dtype},
                   {"few_rows", {2, 33}, dtype},   {"conv", {6, 2, 3, 3}, dtype},
                   {"bias", {17}, dtype},          {"tiny", {1, 3}, dtype},
                   {"empty", {0, 7}, dtype},       {"scalar", {}, dtype},
                   {"one_column", {19, 1}, dtype}};
  std::uint64_t seed = 1000;
  for (const TensorDesc& t : world.tensors) {
    if (t.name.rfind("mapped", 0) != 0) continue;
    const Result<MatrixView> view = matrix_view(t.shape, MatrixRule::automatic);
    if (LayerBasisPtr basis = random_basis(geometry, view->rows, view->cols, seed += 10)) world.bases.layers[t.name] = basis;
  }
  return world;
}

std::int64_t element_count(const TensorDesc& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  return count;
}

Buffers gradients(const World& world, int rank, int step) {
  Buffers all;
  for (std::size_t t = 0; t < world.tensors.size(); ++t) {
    const TensorDesc& desc = world.tensors[t];
    Random random(static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(step) * 7919 + t);
    const std::int64_t count = element_count(desc), cols = desc.shape.empty() ? 1 : std::max<std::int64_t>(desc.shape.back(), 1);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count * dtype_bytes(desc.dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = i / cols, col = i % cols;
      const double strength = 1e-3 * (col % 7 == 0 ? 30 : 1) * (row % 3 == 0 ? 5 : 1);
      auto value = static_cast<float>(random.bell() * strength);
      if (row == 4) value = 0;  // a row that is zero on every rank
      if (desc.dtype == Dtype::f32) {
        std::memcpy(&bytes[static_cast<std::size_t>(4 * i)], &value, 4);
      } else {
        const std::uint16_t code = desc.dtype == Dtype::bf16 ? ref::to_bf16_ieee(value) : ref::to_f16_ieee(value);
        std::memcpy(&bytes[static_cast<std::size_t>(2 * i)], &code, 2);
      }
    }
    all.push_back(std::move(bytes));
  }
  return all;
}

std::vector<TensorBuffer> as_buffers(const World& world, Buffers& data) {
  std::vector<TensorBuffer> buffers;
  for (std::size_t t = 0; t < data.size(); ++t)
    buffers.push_back({static_cast<std::int64_t>(t), data[t].data(), element_count(world.tensors[t])});
  return buffers;
}

std::vector<float> to_floats(const std::vector<std::byte>& bytes, Dtype dtype) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(dtype_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == Dtype::f32) {
      std::memcpy(&values[i], &bytes[4 * i], 4);
      continue;
    }
    std::uint16_t code = 0;
    std::memcpy(&code, &bytes[2 * i], 2);
    values[i] = dtype == Dtype::bf16 ? ref::from_bf16(code) : ref::from_f16(code);
  }
  return values;
}

bool Outcome::same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), 4 * a[i].size()) != 0))
      return false;
  return true;
}

Outcome run_session(const World& world, Transport& transport, int steps, const std::string& backend) {
  Outcome out;
  Result<Plan> plan = Plan::make(world.recipe, world.tensors, transport.size(), world.bases);
  if (!plan.ok()) return out.error = plan.status().message(), out;
  SessionOptions options;
  options.backend = backend;
  Result<std::unique_ptr<Session>> session = Session::open(plan.value(), transport, options);
  if (!session.ok()) return out.error = session.status().message(), out;
  for (int step = 0; step < steps; ++step) {
    Buffers data = gradients(world, transport.rank(), step);
    if (Status s = session.value()->reduce(as_buffers(world, data)); !s.ok()) return out.error = s.message(), out;
    Result<ReduceReport> report = session.value()->wait();
    if (!report.ok()) return out.error = report.status().message(), out;
    out.reports.push_back(report.value());
    out.results.push_back(std::move(data));
  }
  for (std::size_t t = 0; t < world.tensors.size(); ++t) {
    out.residuals.push_back(session.value()->residual(static_cast<std::int64_t>(t)));
    out.owner_residuals.push_back(session.value()->owner_residual(static_cast<std::int64_t>(t)));
  }
  return out;
}

namespace {

using Payload = std::vector<std::byte>;

/// All ranks' state of one tensor.
struct Simulated {
  std::vector<std::vector<float>> residual, owner_residual;
};

std::vector<std::vector<float>> shard_floats(const TensorPlan& t) {
  std::vector<std::vector<float>> all;
  for (const PayloadLayout& p : t.leg1) all.emplace_back(static_cast<std::size_t>((p.row_end - p.row_begin) * t.cols));
  return all;
}

/// One step of one tensor for all ranks; data[r] is rank r's gradient and becomes its result.
Status simulate(const Codec& codec, const TensorPlan& t, std::uint64_t seed, std::uint32_t step,
                std::vector<std::vector<std::byte>*>& data, Simulated& kept) {
  const auto n = static_cast<std::size_t>(t.world);
  const bool feedback = t.error_feedback;
  std::vector<std::vector<Payload>> leg1(n);  // [sender][shard]
  for (std::size_t r = 0; r < n; ++r) {
    std::vector<std::byte*> out;
    for (const PayloadLayout& p : t.leg1) leg1[r].emplace_back(static_cast<std::size_t>(p.total_bytes));
    for (Payload& p : leg1[r]) out.push_back(p.data());
    std::vector<std::uint8_t> written(static_cast<std::size_t>(t.rows));
    EncodeArgs args{&t,
                    data[r]->data(),
                    feedback ? kept.residual[r].data() : nullptr,
                    feedback ? written.data() : nullptr,
                    out,
                    {seed, t.id, static_cast<std::uint32_t>(r), step},
                    nullptr};
    if (Status s = codec.encode(args); !s.ok()) return s;
  }
  auto quantised = shard_floats(t);
  std::vector<std::vector<float>> loss(n);
  std::vector<Payload> leg2;
  for (std::size_t k = 0; k < n; ++k) {
    leg2.emplace_back(static_cast<std::size_t>(t.leg2[k].total_bytes));
    std::vector<const std::byte*> in;
    for (std::size_t r = 0; r < n; ++r) in.push_back(leg1[r][k].data());
    if (feedback && t.deflates() && has_left(t.geometry.side))
      loss[k].resize(static_cast<std::size_t>(t.rank_left() * (t.leg1[k].col_end - t.leg1[k].col_begin)));
    ReduceArgs args;
    args.tensor = &t;
    args.shard = static_cast<int>(k);
    args.payloads = in;
    args.owner_residual = feedback && !kept.owner_residual[k].empty() ? kept.owner_residual[k].data() : nullptr;
    args.quantised = quantised[k].data();
    args.left_loss = loss[k].empty() ? nullptr : loss[k].data();
    args.payload = leg2.back().data();
    args.key = {seed, t.id, 0, step};
    if (Status s = codec.reduce(args); !s.ok()) return s;
  }
  std::vector<const std::byte*> shards;
  for (const Payload& p : leg2) shards.push_back(p.data());
  for (std::size_t r = 0; r < n; ++r) {
    if (Status s = codec.decode({&t, 2, shards, false, data[r]->data(), nullptr}); !s.ok()) return s;
    if (!feedback) continue;
    CommitArgs args{&t,
                    static_cast<int>(r),
                    shards,
                    quantised[r].data(),
                    loss[r].empty() ? nullptr : loss[r].data(),
                    kept.owner_residual[r].empty() ? nullptr : kept.owner_residual[r].data(),
                    kept.residual[r].data()};
    if (Status s = codec.commit(args); !s.ok()) return s;
  }
  return {};
}

}  // namespace

std::vector<Outcome> run_reference(const World& world, int ranks, int steps, const std::string& backend) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<Outcome> out(n);
  const auto failed = [&out](const Status& s) {
    for (Outcome& o : out) o.error = s.message();
    return out;
  };
  const Result<Plan> plan = Plan::make(world.recipe, world.tensors, ranks, world.bases);
  if (!plan.ok()) return failed(plan.status());
  const Result<Codec> codec = Codec::open(backend);
  if (!codec.ok()) return failed(codec.status());
  std::vector<Simulated> kept;
  for (const TensorPlan& t : plan->tensors()) {
    Simulated s;
    if (t.error_feedback) {
      s.residual.assign(n, std::vector<float>(static_cast<std::size_t>(t.elements())));
      s.owner_residual = shard_floats(t);
    } else {
      s.residual.resize(n);
      s.owner_residual.resize(n);
    }
    kept.push_back(std::move(s));
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<Buffers> data;
    for (int r = 0; r < ranks; ++r) data.push_back(gradients(world, r, step));
    for (std::size_t t = 0; t < kept.size(); ++t) {
      std::vector<std::vector<std::byte>*> each;
      for (Buffers& b : data) each.push_back(&b[t]);
      if (Status s =
              simulate(codec.value(), plan->tensors()[t], world.recipe.seed, static_cast<std::uint32_t>(step), each, kept[t]);
          !s.ok())
        return failed(s);
    }
    for (std::size_t r = 0; r < n; ++r) out[r].results.push_back(std::move(data[r]));
  }
  for (std::size_t r = 0; r < n; ++r)
    for (Simulated& s : kept) {
      out[r].residuals.push_back(s.residual[r]);
      out[r].owner_residuals.push_back(s.owner_residual[r]);
    }
  return out;
}

}  // namespace gift::tests
