// What is wrong with the packets of a call, and how every rank comes to the same verdict about it (session.cpp, steps 3 and 4).
#include "session_body.hpp"

namespace gift {
namespace {

WireError damaged_packet(ConstBytes packet, std::size_t sender) {
  const Field field = parse_header(packet).ok() ? Field::payload_hash : Field::header_bytes;
  return {Code::bad_packet, field, static_cast<std::uint32_t>(sender), 0, 0};
}

}  // namespace

/// Reads the headers of all senders of one tensor: the lowest rank that is wrong, against rank 0's values. `blocked`: a sender
/// has an error that is about another tensor. Flags of senders are passed on in `out`.
WireError Session::Body::inspect_senders(std::size_t index, PacketHeader& out, bool& blocked) const {
  PacketHeader reference;
  for (std::size_t k = 0; k < world(); ++k) {
    const auto sender = static_cast<std::uint32_t>(k);
    ConstBytes payload;
    const ConstBytes packet = leg1_packet_in(k, index);
    const Result<PacketHeader> header = parse_packet(packet, payload);
    if (!header.ok()) return damaged_packet(packet, k);
    if (k == 0) reference = header.value();
    // A sender's error is believed only if the rest of its header fits.
    reference.sender = sender;
    WireError difference = compare_header(header.value(), reference);
    difference.rank = sender;
    if (difference.code != Code::ok) return difference;
    if (header->flags & flag_error) {
      if (header->error.code != Code::ok) {
        WireError error = header->error;
        error.rank = sender;
        return error;
      }
      blocked = true;
    }
    if (header->flags & flag_non_zero) out.flags |= flag_non_zero;
    if (header->flags & flag_non_finite) {
      out.flags |= flag_non_finite;
      if (out.non_finite_rank < 0) out.non_finite_rank = static_cast<std::int32_t>(k);
    }
  }
  return {};
}

/// All ranks read the same leg-2 headers, so all find the same error: the one about the lowest rank, of the first tensor. A
/// packet that is damaged here may be whole elsewhere; others would go on, so this rank stops them.
Status Session::Body::verdict() {
  WireError worst;
  std::size_t about = 0;
  bool blocked = false;
  Status local;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    for (std::size_t k = 0; k < world(); ++k) {
      ConstBytes payload;
      const ConstBytes packet = leg2_packet_in(k, i);
      const Result<PacketHeader> header = parse_packet(packet, payload);
      const auto owner = static_cast<std::uint32_t>(k);
      if (!header.ok()) {
        if (local.ok()) local = to_status(damaged_packet(packet, k), tensor(item));
        continue;
      }
      if (header->flags & flag_error) {
        blocked = true;
        const WireError& error = header->error;
        if (error.code == Code::ok || (worst.code != Code::ok && error.rank >= worst.rank)) continue;
        worst = error;
        about = i;
        continue;
      }
      WireError difference =
          compare_header(header.value(), expected_header(tensor(item), 2, static_cast<int>(k), static_cast<int>(k), step));
      difference.rank = owner;
      if (local.ok()) local = to_status(difference, tensor(item));
      item.non_zero = item.non_zero || (header->flags & flag_non_zero);
      item.non_finite = item.non_finite || (header->flags & flag_non_finite);
      if (header->non_finite_rank >= 0 && (item.non_finite_rank < 0 || header->non_finite_rank < item.non_finite_rank))
        item.non_finite_rank = header->non_finite_rank;
    }
  }
  const bool damaged = !local.ok() && local.code() == Code::bad_packet;
  if (worst.code != Code::ok && !damaged) return to_status(worst, tensor(items[about]));
  if (!local.ok()) return close(local);
  return blocked ? close({Code::internal, "a rank reported an error without saying which"}) : Status();
}

}  // namespace gift
