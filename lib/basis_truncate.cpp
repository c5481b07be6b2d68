// Cutting a basis down to fewer columns.
#include <algorithm>

#include "gift/inspect.hpp"

namespace gift {
namespace {

Status cut_side(const LayerBasis& layer, std::int32_t rank, SideBasis& side) {
  if (side.rank <= rank) return {};
  const auto old_rank = static_cast<std::size_t>(side.rank), new_rank = static_cast<std::size_t>(rank);
  std::vector<float> u;
  u.reserve(static_cast<std::size_t>(side.dim) * new_rank);
  for (std::size_t row = 0; row < static_cast<std::size_t>(side.dim); ++row) {
    const auto begin = side.u.begin() + static_cast<std::ptrdiff_t>(row * old_rank);
    u.insert(u.end(), begin, begin + static_cast<std::ptrdiff_t>(new_rank));
  }
  side.u = std::move(u);
  side.rank = rank;
  side.eigenvalues.resize(std::min(side.eigenvalues.size(), new_rank));
  if (layer.kind != GeometryKind::whiten) return {};
  if (side.eigenvalues.size() != new_rank) return {Code::invalid_argument, "has no eigenvalues to make a smaller whitening from"};
  return whiten_scales(side.eigenvalues, side.trace, side.dim, layer.exponent, layer.damping, side.d, side.d_inv);
}

}  // namespace

Result<LayerBasisPtr> truncate_basis(const LayerBasis& layer, std::int32_t rank) {
  if (rank < 1) return Status(Code::invalid_argument, "rank " + std::to_string(rank) + " is not at least 1");
  auto cut = std::make_shared<LayerBasis>(layer);
  for (SideBasis* side : {&cut->right, &cut->left}) {
    if (Status status = cut_side(layer, rank, *side); !status.ok()) return status;
  }
  if (Status status = cut->seal(); !status.ok()) return status;
  return LayerBasisPtr(std::move(cut));
}

}  // namespace gift
