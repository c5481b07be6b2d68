// Packet headers: written and parsed they come back as they were; any flipped bit and any cut is refused.
#include <algorithm>

#include "packet.hpp"
#include "verify_internal.hpp"

namespace gift::verification {
namespace {

using Header = std::vector<std::byte>;

Header written(const PacketHeader& header) {
  Header bytes(static_cast<std::size_t>(packet_header_bytes), std::byte{0xa5});
  write_header(header, bytes.data());
  return bytes;
}

void check_round_trip(Context& context, const PacketHeader& header, const std::string& where) {
  VerifyRow& row = context.row("packet header", "itself");
  const Header bytes = written(header);
  const Result<PacketHeader> parsed = parse_header(bytes);
  compare_counts(row, parsed.ok() ? 1 : 0, 1, where + ", parses");
  if (!parsed.ok()) return;
  compare_bytes(row, written(*parsed), bytes, where + ", written again");
  compare_counts(row, static_cast<std::uint64_t>(compare_header(*parsed, header).code), static_cast<std::uint64_t>(Code::ok),
                 where + ", equals what was expected");
}

void check_flips(Context& context, const PacketHeader& header, const std::string& where) {
  VerifyRow& row = context.row("packet header, spoilt", "refusal");
  Header bytes = written(header);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    compare_counts(row, parse_header(bytes).ok() ? 1 : 0, 0, where + ", bit " + std::to_string(bit) + " flipped, accepted");
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    compare_counts(row, parse_header(std::span(bytes).first(length)).ok() ? 1 : 0, 0,
                   where + ", cut to " + std::to_string(length) + " bytes, accepted");
  }
}

void check_payload(Context& context, PacketHeader header, const std::string& where) {
  VerifyRow& row = context.row("packet payload, spoilt", "refusal");
  Header payload(static_cast<std::size_t>(std::min<std::uint64_t>(header.payload_bytes, 4096)));
  Random random(context.options.seed);
  for (std::byte& b : payload) b = static_cast<std::byte>(random.bits() >> 56);
  header.payload_bytes = payload.size();
  header.payload_hash = xxh3_64(payload);
  Header packet = written(header);
  packet.insert(packet.end(), payload.begin(), payload.end());
  ConstBytes parsed;
  compare_counts(row, parse_packet(packet, parsed).ok() ? 1 : 0, 1, where + ", whole packet accepted");
  for (std::size_t i = static_cast<std::size_t>(packet_header_bytes); i < packet.size(); i += 7) {
    packet[i] ^= std::byte{0x10};
    compare_counts(row, parse_packet(packet, parsed).ok() ? 1 : 0, 0,
                   where + ", byte " + std::to_string(i) + " changed, accepted");
    packet[i] ^= std::byte{0x10};
  }
}

}  // namespace

Status verify_packets(Context& context) {
  for (const char* text : {"fp32", "bf16:sr", "e4m3:tensor", "e5m2:block:64", "nvfp4", "mxfp8:floor:sr", "mxfp4"}) {
    GeometrySpec geometry;
    if (std::string_view(text) != "fp32") {
      geometry.kind = GeometryKind::deflate;
      geometry.side = Side::both;
      geometry.rank = 4;
    }
    Result<LayerBasisPtr> basis = test_basis(geometry, 24, 40, context.options.seed);
    if (!basis.ok()) return basis.status();
    Result<TensorPlan> plan =
        plan_tensor({"verify", {24, 40}, Dtype::f32}, parse_format(text).value(), geometry, *basis, true, ReduceOp::mean, 3);
    if (!plan.ok()) return plan.status();
    for (const int leg : {1, 2}) {
      const PacketHeader header = expected_header(*plan, leg, 1, 2, (std::uint64_t{7} << 40) + 5);
      const std::string where = std::string(text) + ", leg " + std::to_string(leg);
      check_round_trip(context, header, where);
      check_flips(context, header, where);
      check_payload(context, header, where);
    }
  }
  return Status();
}

}  // namespace gift::verification
