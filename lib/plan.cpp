// Plan: from a recipe and a list of tensors to matrices, formats, geometries, shards and byte counts; all validation is here,
// so that nothing after it has to ask whether sizes fit.
#include "gift/plan.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "gift/version.hpp"
#include "packet.hpp"
#include "plan_internal.hpp"

namespace gift {
namespace {

constexpr int max_world = 65536;

Status bad(std::string message) { return Status(Code::invalid_argument, std::move(message)); }

Status check_world(int world) {
  if (world >= 1 && world <= max_world) return Status();
  return bad("a plan is for 1 to " + std::to_string(max_world) + " ranks, not " + std::to_string(world));
}

/// One side of a basis against the matrix it is meant for.
Status check_side(const SideBasis& side, const char* which, std::int64_t dim, const TensorPlan& t) {
  const std::string where = std::string("the ") + which + " basis";
  if (side.dim != dim) {
    return bad(where + " has columns of length " + std::to_string(side.dim) + ", the " + std::to_string(t.rows) + " x " +
               std::to_string(t.cols) + " matrix needs " + std::to_string(dim));
  }
  const std::int64_t most = std::min(t.rows, t.cols);
  if (side.rank < 1 || side.rank > most) {
    return bad(where + " has rank " + std::to_string(side.rank) + ", expected 1 to " + std::to_string(most) +
               ", the smaller extent of the matrix");
  }
  const std::int32_t wanted = t.geometry.rank;
  if (wanted > 0 && side.rank > wanted) {
    return bad(where + " has rank " + std::to_string(side.rank) + ", the recipe asks for " + std::to_string(wanted));
  }
  const auto rank = static_cast<std::size_t>(side.rank);
  if (side.u.size() != static_cast<std::size_t>(dim) * rank) {
    return bad(where + " holds " + std::to_string(side.u.size()) + " numbers, expected " + std::to_string(dim) + " x " +
               std::to_string(side.rank));
  }
  const std::size_t scales = t.geometry.kind == GeometryKind::whiten ? rank : 0;
  if (side.d.size() != scales || side.d_inv.size() != scales) {
    return bad(where + " holds " + std::to_string(side.d.size()) + " and " + std::to_string(side.d_inv.size()) +
               " whitening scales, expected " + std::to_string(scales));
  }
  return Status();
}

Status check_basis(const TensorPlan& t) {
  const std::string wanted = std::string(geometry_name(t.geometry.kind)) + " " + side_name(t.geometry.side);
  if (!t.basis) return bad(wanted + " needs a basis, and there is none for this tensor");
  const LayerBasis& basis = *t.basis;
  if (basis.kind != t.geometry.kind || basis.side != t.geometry.side) {
    return bad("the basis is for " + std::string(geometry_name(basis.kind)) + " " + side_name(basis.side) +
               ", the recipe asks for " + wanted);
  }
  if (basis.hash == Hash128{}) return bad("the basis has no hash: it was never sealed");
  if (has_right(basis.side)) {
    Status status = check_side(basis.right, "right", t.cols, t);
    if (!status.ok()) return status;
  }
  if (has_left(basis.side)) {
    Status status = check_side(basis.left, "left", t.rows, t);
    if (!status.ok()) return status;
  }
  if (!has_right(basis.side) && basis.right.rank != 0) return bad("a left basis has a right side as well");
  if (!has_left(basis.side) && basis.left.rank != 0) return bad("a right basis has a left side as well");
  return Status();
}

}  // namespace

Status resolve_geometry(TensorPlan& t) {
  GeometrySpec& g = t.geometry;
  if (t.elements() == 0) g = GeometrySpec{};  // nothing to map: an empty tensor needs no basis
  if (g.kind != GeometryKind::euclidean && t.format.format == Format::fp32) {
    return bad(std::string("the format fp32 loses nothing, so ") + geometry_name(g.kind) + " would only cost: use euclidean");
  }
  switch (g.kind) {
    case GeometryKind::euclidean:
      g = GeometrySpec{};
      t.basis.reset();
      return Status();
    case GeometryKind::hadamard: {
      if (has_left(g.side)) return bad(std::string("hadamard mixes along the row (side right), not ") + side_name(g.side));
      Result<std::int32_t> block = hadamard_block(t.cols, g.hadamard_block);
      if (!block.ok()) return block.status();
      g = GeometrySpec{};
      g.kind = GeometryKind::hadamard;
      g.side = Side::right;
      g.hadamard_block = *block;
      t.basis.reset();
      return Status();
    }
    case GeometryKind::whiten:
    case GeometryKind::deflate: {
      if (g.side == Side::none) g.side = Side::right;
      if (g.rank < 0) return bad("rank " + std::to_string(g.rank) + " is negative");
      Status status = check_basis(t);
      if (!status.ok()) return status;
      g.rank = std::max(t.rank_right(), t.rank_left());
      g.hadamard_block = 0;
      return Status();
    }
  }
  return bad("unknown geometry " + std::to_string(static_cast<int>(g.kind)));
}

Result<TensorPlan> plan_one(const TensorDesc& desc, const Choice& choice, const LayerBasisPtr& basis, ReduceOp op, int world) {
  if (desc.dtype != Dtype::f32 && desc.dtype != Dtype::bf16 && desc.dtype != Dtype::f16) {
    return bad("unknown dtype " + std::to_string(static_cast<int>(desc.dtype)));
  }
  Result<MatrixView> view = matrix_view(desc.shape, choice.matrix);
  if (!view.ok()) return view.status();
  Status status = validate(choice.format);
  if (!status.ok()) return status;
  TensorPlan t;
  t.name = desc.name;
  t.shape = desc.shape;
  t.dtype = desc.dtype;
  t.rows = view->rows;
  t.cols = view->cols;
  // An exempt vector has no block along a row to keep together, so it is stood upright and every rank owns a piece of it.
  if (choice.exempt && desc.shape.size() == 1) std::swap(t.rows, t.cols);
  t.format = choice.format;
  t.geometry = choice.geometry;
  t.error_feedback = choice.error_feedback;
  t.exempt = choice.exempt;
  t.op = op;
  t.world = world;
  t.basis = basis;
  status = resolve_geometry(t);
  if (status.ok()) status = lay_out(t);
  if (!status.ok()) return status.at("shape " + shape_text(desc.shape));
  return t;
}

Result<TensorPlan> plan_tensor(const TensorDesc& tensor, const FormatSpec& format, const GeometrySpec& geometry,
                               LayerBasisPtr basis, bool error_feedback, ReduceOp op, int world, MatrixRule rule) {
  try {
    Status status = check_world(world);
    if (!status.ok()) return status;
    const Choice choice{format, geometry, error_feedback, false, rule};
    Result<TensorPlan> planned = plan_one(tensor, choice, basis, op, world);
    if (!planned.ok()) return planned.status().at("tensor '" + tensor.name + "'");
    planned->id = static_cast<std::uint32_t>(hash_text(tensor.name));
    return planned;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a plan");
  }
}

struct Plan::Body {
  Recipe recipe;
  int world = 1;
  std::vector<TensorPlan> tensors;
  std::unordered_map<std::string, std::int64_t> index;
  Fingerprint fingerprint;
  double leg_bytes = 0;      ///< payloads and headers of both legs, summed over shards
  double payload_bytes = 0;  ///< the same without headers
  double elements = 0;

  Status add(const TensorDesc& desc, const BasisSet& bases, std::unordered_set<std::uint32_t>& ids);
  void count();
};

Status Plan::Body::add(const TensorDesc& desc, const BasisSet& bases, std::unordered_set<std::uint32_t>& ids) {
  if (desc.name.empty()) return bad("tensor " + std::to_string(tensors.size()) + " has no name");
  const auto [seen, fresh] = index.emplace(desc.name, static_cast<std::int64_t>(tensors.size()));
  if (!fresh) {
    return bad("tensor '" + desc.name + "' is listed twice, at " + std::to_string(seen->second) + " and " +
               std::to_string(tensors.size()));
  }
  Choice choice = choose(recipe, desc.name, desc.shape);
  // FP32 loses nothing on either leg, so there is nothing to feed back and no memory to spend on it.
  if (choice.format.format == Format::fp32) choice.error_feedback = false;
  const auto found = bases.layers.find(desc.name);
  Result<TensorPlan> planned =
      plan_one(desc, choice, found == bases.layers.end() ? LayerBasisPtr() : found->second, recipe.op, world);
  if (!planned.ok()) return planned.status().at("tensor '" + desc.name + "'");
  planned->id = static_cast<std::uint32_t>(hash_text(desc.name));
  while (!ids.insert(planned->id).second) ++planned->id;
  tensors.push_back(std::move(planned).value());
  return Status();
}

void Plan::Body::count() {
  for (const TensorPlan& t : tensors) {
    elements += static_cast<double>(t.elements());
    for (int k = 0; k < world; ++k) {
      const auto shard = static_cast<std::size_t>(k);
      payload_bytes += static_cast<double>(t.leg1[shard].total_bytes) + static_cast<double>(t.leg2[shard].total_bytes);
    }
  }
  const double headers = 2.0 * static_cast<double>(world) * static_cast<double>(tensors.size());
  leg_bytes = payload_bytes + headers * static_cast<double>(packet_header_bytes);
}

Result<Plan> Plan::make(const Recipe& recipe, const std::vector<TensorDesc>& tensors, int world, const BasisSet& bases) {
  try {
    Status status = check_world(world);
    if (!status.ok()) return status;
    auto body = std::make_shared<Body>();
    body->recipe = recipe;
    body->world = world;
    std::unordered_set<std::uint32_t> ids;
    std::int64_t elements = 0;
    for (const TensorDesc& desc : tensors) {
      status = body->add(desc, bases, ids);
      if (!status.ok()) return status;
      if (!checked_add(elements, body->tensors.back().elements(), elements)) {
        return bad("tensor '" + desc.name + "': the elements of the plan up to here do not fit in 64-bit sizes");
      }
    }
    body->count();
    Fingerprint& print = body->fingerprint;
    print.protocol = packet_version;
    print.code = version_number();
    print.tensors = tensors.size();
    print.elements = static_cast<std::uint64_t>(elements);
    print.shapes = hash_shapes(body->tensors);
    print.formats = hash_formats(body->tensors);
    print.recipe = hash_text(to_toml(recipe));
    print.basis = hash_bases(body->tensors);
    Plan plan;
    plan.body_ = std::move(body);
    return plan;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a plan of " + std::to_string(tensors.size()) + " tensors");
  }
}

const Recipe& Plan::recipe() const noexcept { return body_->recipe; }
int Plan::world() const noexcept { return body_->world; }
const std::vector<TensorPlan>& Plan::tensors() const noexcept { return body_->tensors; }

std::int64_t Plan::find(const std::string& name) const noexcept {
  const auto found = body_->index.find(name);
  return found == body_->index.end() ? -1 : found->second;
}

Fingerprint Plan::fingerprint(std::uint64_t step) const noexcept {
  Fingerprint print = body_->fingerprint;
  print.step = step;
  return print;
}

// Each leg sends every shard's packet to or from world - 1 others; over all ranks that is (world - 1) times the bytes of all
// shards, and a rank's mean share is 1/world of it.
double Plan::wire_bytes_per_rank() const noexcept { return body_->leg_bytes * (body_->world - 1) / body_->world; }
double Plan::fp32_bytes_per_rank() const noexcept { return 2.0 * 4.0 * body_->elements * (body_->world - 1) / body_->world; }

double Plan::bits_per_element() const noexcept {
  return body_->elements > 0 ? body_->payload_bytes / 2 * 8 / body_->elements : 0.0;
}

}  // namespace gift
