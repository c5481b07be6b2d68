// From factors to bases: eigenvectors rounded once to FP32, sealed or refused.
#include "make_basis.hpp"

#include <algorithm>
#include <limits>

namespace gift {

Result<FactorParts> take_apart(const LinAlg& linalg, const std::vector<double>& gram, std::int64_t dim, std::int64_t samples,
                               std::int64_t most) {
  FactorParts parts;
  parts.dim = dim;
  parts.samples = samples;
  const auto wanted = static_cast<std::int32_t>(std::clamp<std::int64_t>(most, 0, dim));
  std::vector<double> vectors;
  if (const Status s = linalg.top_eigen(gram.data(), dim, wanted, parts.values, vectors); !s.ok()) return s;
  for (std::int64_t i = 0; i < dim; ++i) parts.trace += gram[static_cast<std::size_t>(i * dim + i)];
  const double least = static_cast<double>(dim) * std::numeric_limits<double>::epsilon() * std::max(0.0, parts.values.front());
  for (double& value : parts.values) {
    parts.factor_rank += value > least;
    value = std::max(value, 0.0);  // a factor has no negative eigenvalues; rounding makes some
  }
  parts.kept = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, parts.factor_rank));
  parts.vectors.resize(static_cast<std::size_t>(dim * parts.kept));
  for (std::int64_t k = 0; k < dim; ++k) {
    std::copy_n(vectors.begin() + k * wanted, parts.kept, parts.vectors.begin() + k * parts.kept);
  }
  return parts;
}

Result<SideBasis> side_basis(const FactorParts& parts, const GeometrySpec& spec) {
  SideBasis b;
  b.dim = parts.dim;
  b.rank = std::min(spec.rank, parts.kept);
  if (b.rank < 1) {
    return Status(Code::numeric, "a factor of rank " + std::to_string(parts.factor_rank) + " over " +
                                     std::to_string(parts.samples) + " samples gives no basis of rank " +
                                     std::to_string(spec.rank));
  }
  b.trace = parts.trace;
  b.eigenvalues.assign(parts.values.begin(), parts.values.begin() + b.rank);
  b.u.resize(static_cast<std::size_t>(b.dim * b.rank));
  for (std::int64_t k = 0; k < b.dim; ++k) {
    for (std::int32_t j = 0; j < b.rank; ++j) {
      b.u[static_cast<std::size_t>(k * b.rank + j)] =
          static_cast<float>(parts.vectors[static_cast<std::size_t>(k * parts.kept + j)]);
    }
  }
  if (spec.kind == GeometryKind::whiten) {
    const Status s = whiten_scales(b.eigenvalues, b.trace, b.dim, spec.exponent, spec.damping, b.d, b.d_inv);
    if (!s.ok()) return s;
  }
  return b;
}

Result<LayerBasisPtr> layer_basis(const FactorParts* right, const FactorParts* left, const GeometrySpec& spec,
                                  FactorSource source, std::int64_t step) {
  auto layer = std::make_shared<LayerBasis>();
  layer->kind = spec.kind;
  layer->side = spec.side;
  layer->source = source_name(source);
  layer->step = step;
  if (spec.kind == GeometryKind::whiten) {
    layer->exponent = spec.exponent;
    layer->damping = spec.damping;
  }
  for (const auto& [parts, used, target, name] : {std::tuple(right, has_right(spec.side), &layer->right, "right"),
                                                  std::tuple(left, has_left(spec.side), &layer->left, "left")}) {
    if (!used) continue;
    if (parts == nullptr) return Status(Code::invalid_argument, std::string(name) + ": no factor");
    Result<SideBasis> side = side_basis(*parts, spec);
    if (!side.ok()) return side.status().at(name);
    *target = *std::move(side);
    layer->samples = std::max(layer->samples, parts->samples);
  }
  if (const Status s = layer->seal(); !s.ok()) return s;
  return LayerBasisPtr(layer);
}

Result<LayerBasisPtr> make_basis(const LayerStats& stats, const GeometrySpec& spec, FactorSource source,
                                 const std::string& backend) {
  if (spec.kind != GeometryKind::whiten && spec.kind != GeometryKind::deflate) {
    return Status(Code::invalid_argument, stats.name + ": " + geometry_name(spec.kind) + " needs no basis");
  }
  if (spec.side == Side::none || spec.rank < 1) {
    return Status(Code::invalid_argument, stats.name + ": a basis needs a side and a rank of at least 1, got " +
                                              side_name(spec.side) + " and " + std::to_string(spec.rank));
  }
  const Result<std::shared_ptr<const Backend>> opened = open_backend(backend);
  if (!opened.ok()) return opened.status();
  FactorParts parts[2];
  const FactorStats* sides[2] = {&stats.right, &stats.left};
  for (int k = 0; k < 2; ++k) {
    const bool used = k == 0 ? has_right(spec.side) : has_left(spec.side);
    if (!used) continue;
    const std::string where = stats.name + ": " + (k == 0 ? "right" : "left");
    if (!sides[k]->skipped.empty()) return Status(Code::invalid_argument, where + ": " + sides[k]->skipped);
    if (sides[k]->samples == 0) return Status(Code::invalid_argument, where + ": no samples of this side");
    std::int64_t most = std::min<std::int64_t>(spec.rank, sides[k]->dim);
    if (stats.rows > 0 && stats.cols > 0) most = std::min(most, std::min(stats.rows, stats.cols));
    Result<FactorParts> taken = take_apart((*opened)->linalg(), sides[k]->gram, sides[k]->dim, sides[k]->samples, most);
    if (!taken.ok()) return taken.status().at(where);
    parts[k] = *std::move(taken);
  }
  Result<LayerBasisPtr> basis = layer_basis(&parts[0], &parts[1], spec, source, -1);
  if (!basis.ok()) return basis.status().at(stats.name);
  return basis;
}

}  // namespace gift
