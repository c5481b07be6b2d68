// Memory of a session: residuals, and packet buffers that are allocated once, at open, for all tensors of the plan.
#include <algorithm>

#include "session_body.hpp"

namespace gift {
namespace {

constexpr auto header_bytes = static_cast<std::size_t>(packet_header_bytes);

std::size_t packet_bytes(const PayloadLayout& layout) noexcept {
  return header_bytes + static_cast<std::size_t>(layout.total_bytes);
}

std::size_t shard_elements(const TensorPlan& tensor, const PayloadLayout& layout) noexcept {
  return static_cast<std::size_t>((layout.row_end - layout.row_begin) * tensor.cols);
}

}  // namespace

void Session::Body::allocate() {
  const std::size_t n = world(), me = rank();
  std::vector<std::size_t> leg1(n, 0), leg2(n, 0);
  std::size_t largest_shard = 0;
  std::vector<TensorState> fresh(plan.tensors().size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const TensorPlan& t = plan.tensors()[i];
    for (std::size_t k = 0; k < n; ++k) {
      leg1[k] += packet_bytes(t.leg1[k]);
      leg2[k] += packet_bytes(t.leg2[k]);
    }
    const PayloadLayout& mine = t.leg1[me];
    largest_shard = std::max(largest_shard, shard_elements(t, mine));
    if (!t.error_feedback) continue;
    fresh[i].residual.resize(static_cast<std::size_t>(t.elements()));
    fresh[i].row_written.resize(static_cast<std::size_t>(t.rows));
    fresh[i].owner_residual.resize(shard_elements(t, mine));
    fresh[i].quantised.resize(shard_elements(t, mine));
    if (t.deflates() && has_left(t.geometry.side))
      fresh[i].left_loss.resize(static_cast<std::size_t>(t.rank_left() * (mine.col_end - mine.col_begin)));
  }
  PacketBuffers p;
  p.leg1_out.resize(n);
  p.leg1_in.resize(n);
  p.leg2_in.resize(n);
  for (std::size_t k = 0; k < n; ++k) {
    p.leg1_out[k].resize(leg1[k]);
    p.leg1_in[k].resize(leg1[me]);
    p.leg2_in[k].resize(leg2[k]);
  }
  p.leg2_out.resize(leg2[me]);
  p.quantised.resize(largest_shard);
  states = std::move(fresh);
  packets = std::move(p);
}

void Session::Body::place_packets() {
  const std::size_t n = world();
  leg1_at.assign(n, std::vector<std::size_t>(items.size()));
  leg2_at = leg1_at;
  leg1_bytes.assign(n, 0);
  leg2_bytes.assign(n, 0);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < items.size(); ++i) {
      leg1_at[k][i] = leg1_bytes[k];
      leg2_at[k][i] = leg2_bytes[k];
      leg1_bytes[k] += packet_bytes(tensor(items[i]).leg1[k]);
      leg2_bytes[k] += packet_bytes(tensor(items[i]).leg2[k]);
    }
}

std::span<std::byte> Session::Body::leg1_packet_out(std::size_t shard, std::size_t item) noexcept {
  return {packets.leg1_out[shard].data() + leg1_at[shard][item], packet_bytes(tensor(items[item]).leg1[shard])};
}

ConstBytes Session::Body::leg1_packet_in(std::size_t sender, std::size_t item) const noexcept {
  return {packets.leg1_in[sender].data() + leg1_at[rank()][item], packet_bytes(tensor(items[item]).leg1[rank()])};
}

std::span<std::byte> Session::Body::leg2_packet_out(std::size_t item) noexcept {
  return {packets.leg2_out.data() + leg2_at[rank()][item], packet_bytes(tensor(items[item]).leg2[rank()])};
}

ConstBytes Session::Body::leg2_packet_in(std::size_t owner, std::size_t item) const noexcept {
  return {packets.leg2_in[owner].data() + leg2_at[owner][item], packet_bytes(tensor(items[item]).leg2[owner])};
}

std::vector<const std::byte*> Session::Body::leg1_payloads_out(std::size_t item) const {
  std::vector<const std::byte*> payloads;
  for (std::size_t k = 0; k < world(); ++k) payloads.push_back(packets.leg1_out[k].data() + leg1_at[k][item] + header_bytes);
  return payloads;
}

std::vector<const std::byte*> Session::Body::leg1_payloads_in(std::size_t item) const {
  std::vector<const std::byte*> payloads;
  for (std::size_t k = 0; k < world(); ++k) payloads.push_back(leg1_packet_in(k, item).data() + header_bytes);
  return payloads;
}

std::vector<const std::byte*> Session::Body::leg2_payloads(std::size_t item) const {
  std::vector<const std::byte*> payloads;
  for (std::size_t k = 0; k < world(); ++k) payloads.push_back(leg2_packet_in(k, item).data() + header_bytes);
  return payloads;
}

}  // namespace gift
