// Any bytes as a packet. Nearly all are stopped by the checksums, so each input is also parsed with its checksums put right:
// what passes then must write back to the very same bytes and compare to a plan without trouble.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "packet.hpp"

namespace {

using namespace gift;

constexpr std::size_t header_bytes = static_cast<std::size_t>(packet_header_bytes);
constexpr std::size_t at_checksum = header_bytes - 8, at_payload_bytes = 128, at_payload_hash = 136;

/// An 8 x 8 tensor over two ranks, to compare headers with.
const TensorPlan& plan() {
  static const TensorPlan tensor = [] {
    TensorPlan t;
    t.name = "w";
    t.id = 7;
    t.shape = {8, 8};
    t.rows = t.cols = 8;
    t.format = *parse_format("e4m3");
    t.world = 2;
    for (const std::int64_t begin : {0, 4}) {
      PayloadLayout layout;
      layout.row_begin = begin;
      layout.row_end = begin + 4;
      layout.total_bytes = 64;
      t.leg1.push_back(layout);
      t.leg2.push_back(layout);
    }
    return t;
  }();
  return tensor;
}

void check(const PacketHeader& header, const std::byte* bytes) {
  std::vector<std::byte> written(header_bytes);
  write_header(header, written.data());
  fuzz::require(std::memcmp(written.data(), bytes, header_bytes) == 0, "a parsed header writes back to the same bytes");
  for (int leg = 1; leg <= 2; ++leg) {
    const WireError error = compare_header(header, expected_header(plan(), leg, 0, 1, header.step));
    if (error.code != Code::ok) fuzz::require_one_line(to_status(error, plan()));
  }
  if (header.error.code != Code::ok) fuzz::require_one_line(to_status(header.error, plan()));
}

void put_u64(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

void parse(const std::vector<std::byte>& bytes) {
  ConstBytes payload;
  const auto header = parse_header(bytes);
  const auto packet = parse_packet(bytes, payload);
  if (!header.ok()) {
    fuzz::require_refusal(header.status(), "packet header: ");
    fuzz::require(!packet.ok(), "no packet without a header");
    return;
  }
  check(*header, bytes.data());
  if (!packet.ok()) return fuzz::require_refusal(packet.status(), "packet");
  fuzz::require(payload.size() == bytes.size() - header_bytes, "the payload is what follows the header");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::as_bytes(data, size);
  std::vector<std::byte> bytes(input.begin(), input.end());
  parse(bytes);
  if (size < header_bytes) return 0;
  put_u64(bytes, at_checksum, xxh3_64(ConstBytes(bytes).first(at_checksum)));
  parse(bytes);
  put_u64(bytes, at_payload_bytes, size - header_bytes);
  put_u64(bytes, at_payload_hash, xxh3_64(ConstBytes(bytes).subspan(header_bytes)));
  put_u64(bytes, at_checksum, xxh3_64(ConstBytes(bytes).first(at_checksum)));
  parse(bytes);
  return 0;
}
