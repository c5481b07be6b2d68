// The fixed-size header in front of every payload, and its parser, which treats all bytes as hostile.
#pragma once

#include <cstdint>
#include <span>

#include "gift/plan.hpp"
#include "gift/status.hpp"
#include "gift/transport.hpp"

namespace gift {

inline constexpr std::uint32_t packet_magic = 0x54464947;  // "GIFT" in memory
inline constexpr std::uint16_t packet_version = 1;
inline constexpr std::int64_t packet_header_bytes = 192;

/// Header flags.
inline constexpr std::uint16_t flag_non_finite = 1;  ///< the sender's tensor (leg 1) or the sum (leg 2) holds NaN or Inf
inline constexpr std::uint16_t flag_error = 2;       ///< the sender found an error: see `error`; the payload is zeros

/// An error that travels: every rank rebuilds the same message from it.
struct WireError {
  Code code = Code::ok;
  std::uint8_t field = 0;      ///< which header field differed (packet.cpp names them), 0: see code
  std::uint32_t rank = 0;      ///< the rank it is about
  std::uint64_t value = 0;     ///< what that rank had
  std::uint64_t expected = 0;  ///< rank 0's value
};

/// Little-endian on the wire, in this order; then XXH3-64 of the header up to there. gift-basis(5) shows it byte by byte.
struct PacketHeader {
  std::uint8_t leg = 1;  ///< 1 or 2
  std::uint16_t flags = 0;
  std::uint32_t tensor_id = 0;
  std::uint32_t sender = 0;
  std::uint32_t world = 0;
  std::uint32_t shard = 0;
  std::uint64_t step = 0;
  std::int64_t rows = 0, cols = 0;          ///< of the whole matrix
  std::int64_t row_begin = 0, row_end = 0;  ///< of this shard
  FormatSpec format;
  GeometryKind geometry = GeometryKind::euclidean;
  Side side = Side::none;
  std::int32_t rank_right = 0, rank_left = 0;
  Hash128 basis;
  std::int32_t non_finite_rank = -1;  ///< lowest rank whose tensor was not finite, -1 if none is known
  WireError error;
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_hash = 0;  ///< XXH3-64
};

/// The header a plan expects from `sender` for `shard` on `leg`; flags, error and hash empty.
PacketHeader expected_header(const TensorPlan& tensor, int leg, int sender, int shard, std::uint64_t step);

void write_header(const PacketHeader& header, std::byte* out);  ///< packet_header_bytes
/// Parses and checks magic, version, header checksum, enum ranges and sizes. Reads nothing beyond `bytes`.
Result<PacketHeader> parse_header(ConstBytes bytes);
/// Header and payload together: sizes agree and the payload's checksum holds.
Result<PacketHeader> parse_packet(ConstBytes bytes, ConstBytes& payload);

/// What differs between a header and what the plan expects, as an error that travels; Code::ok if nothing does.
WireError compare_header(const PacketHeader& got, const PacketHeader& expected);
/// The one-line message that every rank prints for a WireError.
Status to_status(const WireError& error, const TensorPlan& tensor);

std::uint64_t xxh3_64(ConstBytes bytes) noexcept;
Hash128 xxh3_128(ConstBytes bytes) noexcept;

}  // namespace gift
