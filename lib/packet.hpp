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
inline constexpr std::uint16_t flag_non_zero = 4;    ///< some X is not zero (leg 1: the sender's; leg 2: any sender's)

/// What an error that travels is about. The values are stable.
enum class Field : std::uint8_t {
  none = 0,  ///< the code says it all
  // Header fields on which ranks can differ (compare_header), in the order in which they are looked at.
  step = 1,
  tensor_id = 2,
  sender = 3,
  world = 4,
  shard = 5,
  rows = 6,
  cols = 7,
  row_begin = 8,
  row_end = 9,
  format = 10,
  granularity = 11,
  block = 12,
  rounding = 13,
  mx_scale = 14,
  geometry = 15,
  side = 16,
  rank_right = 17,
  rank_left = 18,
  basis = 19,  ///< value and expectation are the first eight bytes of the hash
  payload_bytes = 20,
  leg = 21,
  // Packets that cannot be used.
  header_bytes = 32,
  payload_hash = 33,
  // Arguments of a call.
  buffer_count = 48,   ///< elements in a caller's buffer
  buffer_null = 49,    ///< a null buffer
  buffer_twice = 50,   ///< the same tensor given twice; value: index
  buffer_tensor = 51,  ///< a tensor index outside of the plan; value: index, expected: tensors in the plan
  pending = 52,        ///< reduce called before wait
};

/// An error that travels: every rank rebuilds the same message from it.
struct WireError {
  Code code = Code::ok;
  Field field = Field::none;
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
