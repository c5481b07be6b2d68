// Golden packets: bytes that version 1 of the protocol put on the wire, committed under fixtures/golden/packets, with the bases
// they need and what they decode to. A later version is held to reading them, and this one to writing them.
//
// To rewrite them after a deliberate change of the protocol:  conformance "[rewrite-golden-packets]"
#include <cstdio>
#include <cstring>
#include <map>

#include "catch.hpp"
#include "gift/safetensors.hpp"
#include "packet.hpp"
#include "pipeline_kit.hpp"

using namespace kit;
using gift::GeometryKind;
using gift::Side;

namespace {

const std::string golden_path = std::string(GIFT_FIXTURES) + "/golden/packets/packets_v1.safetensors";
constexpr std::uint64_t golden_step = 3;
constexpr int golden_world = 2;

std::string map_name(const Map& map) {
  return std::string(gift::geometry_name(map.kind)) +
         (map.side == Side::none ? "" : std::string("-") + gift::side_name(map.side));
}

Case golden_case(const std::string& format, const Map& map) {
  return Case{format, map.kind, map.side, 6, 40, 2, golden_world, false, gift::ReduceOp::mean, gift::Dtype::f32, 17};
}

/// Every format with every map; granularities, scale modes and stochastic rounding with the plainest and the fullest map.
std::vector<std::pair<std::string, Map>> golden_cases() {
  std::vector<std::pair<std::string, Map>> cases;
  for (const std::string& format : all_formats()) {
    for (const Map& map : all_maps()) {
      const bool plain = format.find(':') == std::string::npos && format != "fp32";
      const bool full = map.kind == GeometryKind::deflate && map.side == Side::both && format != "fp32";
      if (plain || full || map.kind == GeometryKind::euclidean) cases.emplace_back(format, map);
    }
  }
  return cases;
}

/// rank's gradient: integers over powers of two, so that every machine makes the same numbers. Row 4 is zero.
Floats golden_input(int rank) {
  Floats x(6 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto h = static_cast<std::int64_t>((i * 2654435761u + static_cast<std::size_t>(rank) * 40503u) % 4001u) - 2000;
    const int shift = static_cast<int>(i % 40) / 8;  // five magnitudes along a row
    x[i] = i / 40 == 4 ? 0.0f : static_cast<float>(h) / static_cast<float>(1024 << shift);
  }
  return x;
}

std::vector<Floats> golden_inputs() { return {golden_input(0), golden_input(1)}; }

Bytes packet(const gift::TensorPlan& plan, int leg, int sender, int shard, const Bytes& payload) {
  gift::PacketHeader header = gift::expected_header(plan, leg, sender, shard, golden_step);
  header.payload_bytes = payload.size();
  header.payload_hash = gift::xxh3_64(payload);
  Bytes bytes(static_cast<std::size_t>(gift::packet_header_bytes));
  gift::write_header(header, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

std::string packet_name(const std::string& format, const Map& map, int leg, int sender, int shard) {
  return format + "/" + map_name(map) + "/leg" + std::to_string(leg) + ".from" + std::to_string(sender) + ".shard" +
         std::to_string(shard);
}

Ranks golden_ranks(const gift::TensorPlan& plan) { return Ranks("ref", plan, 99); }

gift::TensorOut tensor_of(const std::string& name, const char* dtype, std::vector<std::int64_t> shape, const void* data,
                          std::size_t bytes) {
  gift::TensorOut out{name, dtype, std::move(shape), Bytes(bytes)};
  if (bytes > 0) std::memcpy(out.bytes.data(), data, bytes);
  return out;
}

void put_side(std::vector<gift::TensorOut>& out, const std::string& name, const gift::SideBasis& side) {
  if (side.rank == 0) return;
  out.push_back(tensor_of(name + ".u", "F32", {side.dim, side.rank}, side.u.data(), side.u.size() * 4));
  if (side.d.empty()) return;
  out.push_back(tensor_of(name + ".d", "F32", {side.rank}, side.d.data(), side.d.size() * 4));
  out.push_back(tensor_of(name + ".d_inv", "F32", {side.rank}, side.d_inv.data(), side.d_inv.size() * 4));
}

Floats floats_in(const gift::SafetensorsFile& file, const std::string& name) {
  gift::Result<Floats> values = file.read_f32(name);
  INFO(values.status().message());
  REQUIRE(values.ok());
  return *values;
}

gift::SideBasis stored_side(const gift::SafetensorsFile& file, const std::string& name) {
  gift::SideBasis side;
  const gift::TensorInfo* info = file.find(name + ".u");
  if (info == nullptr) return side;
  side.dim = info->shape[0];
  side.rank = static_cast<std::int32_t>(info->shape[1]);
  side.u = floats_in(file, name + ".u");
  if (file.find(name + ".d") != nullptr) {
    side.d = floats_in(file, name + ".d");
    side.d_inv = floats_in(file, name + ".d_inv");
  }
  side.eigenvalues.assign(static_cast<std::size_t>(side.rank), 1.0);
  side.trace = static_cast<double>(side.dim);
  return side;
}

gift::LayerBasisPtr stored_basis(const gift::SafetensorsFile& file, const Map& map) {
  if (map.kind != GeometryKind::whiten && map.kind != GeometryKind::deflate) return nullptr;
  gift::LayerBasis basis;
  basis.kind = map.kind;
  basis.side = map.side;
  basis.right = stored_side(file, "basis/" + map_name(map) + "/right");
  basis.left = stored_side(file, "basis/" + map_name(map) + "/left");
  REQUIRE(basis.seal().ok());
  return std::make_shared<const gift::LayerBasis>(basis);
}

gift::SafetensorsFile open_golden() {
  gift::Result<gift::SafetensorsFile> file = gift::SafetensorsFile::open(golden_path);
  INFO(file.status().message());
  REQUIRE(file.ok());
  return *file;
}

/// Parses a stored packet, holds its header to the plan, and gives back its payload.
Bytes stored_payload(const gift::SafetensorsFile& file, const gift::TensorPlan& plan, const std::string& name, int leg,
                     int sender, int shard) {
  gift::Result<Bytes> bytes = file.read_bytes(name);
  INFO(name << " " << bytes.status().message());
  REQUIRE(bytes.ok());
  gift::ConstBytes payload;
  gift::Result<gift::PacketHeader> header = gift::parse_packet(*bytes, payload);
  INFO(header.status().message());
  REQUIRE(header.ok());
  const gift::WireError difference = gift::compare_header(*header, gift::expected_header(plan, leg, sender, shard, golden_step));
  INFO(gift::to_status(difference, plan).message());
  REQUIRE(difference.code == gift::Code::ok);
  return Bytes(payload.begin(), payload.end());
}

}  // namespace

TEST_CASE("golden packets are read, and written again byte for byte", "[golden][packets]") {
  const gift::SafetensorsFile file = open_golden();
  std::size_t packets = 0;
  for (const auto& [format, map] : golden_cases()) {
    const gift::TensorPlan plan = plan_of(golden_case(format, map), stored_basis(file, map));
    const StepResult now = golden_ranks(plan).step(golden_inputs());
    std::vector<const std::byte*> gathered;
    std::vector<Bytes> stored;
    for (int shard = 0; shard < golden_world; ++shard) {
      const auto at = static_cast<std::size_t>(shard);
      for (int sender = 0; sender < golden_world; ++sender) {
        const Bytes payload = stored_payload(file, plan, packet_name(format, map, 1, sender, shard), 1, sender, shard);
        CHECK(payload == now.leg1[static_cast<std::size_t>(sender)][at]);
        ++packets;
      }
      stored.push_back(stored_payload(file, plan, packet_name(format, map, 2, shard, shard), 2, shard, shard));
      CHECK(stored.back() == now.leg2[at]);
      ++packets;
    }
    for (const Bytes& payload : stored) gathered.push_back(payload.data());
    const Floats expected = floats_in(file, format + "/" + map_name(map) + "/decoded");
    for (const char* backend : {"ref", "cpu"}) {
      gift::Result<gift::Codec> codec = gift::Codec::open(backend);
      REQUIRE(codec.ok());
      Floats decoded(expected.size(), -1.0f);
      gift::DecodeArgs args;
      args.tensor = &plan;
      args.payloads = gathered;
      args.output = decoded.data();
      REQUIRE(codec->decode(args).ok());
      INFO(format << " " << map_name(map) << " by " << backend);
      CHECK(std::memcmp(decoded.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    }
  }
  std::printf("golden packets: %zu packets of %zu cases\n", packets, golden_cases().size());
  CHECK(packets == 6 * golden_cases().size());
}

TEST_CASE("golden packets are notice of change: one flipped bit anywhere is refused", "[golden][packets]") {
  const gift::SafetensorsFile file = open_golden();
  gift::Result<Bytes> bytes = file.read_bytes("nvfp4/deflate-both/leg1.from1.shard0");
  REQUIRE(bytes.ok());
  for (std::size_t i = 0; i < bytes->size(); ++i) {
    Bytes broken = *bytes;
    broken[i] ^= std::byte{0x10};
    gift::ConstBytes payload;
    CHECK_FALSE(gift::parse_packet(broken, payload).ok());
  }
}

TEST_CASE("rewrite the golden packets", "[.][rewrite-golden-packets]") {
  std::vector<gift::TensorOut> out;
  std::map<std::string, gift::LayerBasisPtr> bases;
  for (const Map& map : all_maps()) {
    const gift::LayerBasisPtr basis = make_basis(map.kind, map.side, 6, 40, 2, 17);
    bases[map_name(map)] = basis;
    if (!basis) continue;
    put_side(out, "basis/" + map_name(map) + "/right", basis->right);
    put_side(out, "basis/" + map_name(map) + "/left", basis->left);
  }
  const auto put_packet = [&](const std::string& name, const Bytes& bytes) {
    out.push_back(tensor_of(name, "U8", {static_cast<std::int64_t>(bytes.size())}, bytes.data(), bytes.size()));
  };
  for (const auto& [format, map] : golden_cases()) {
    const gift::TensorPlan plan = plan_of(golden_case(format, map), bases[map_name(map)]);
    const StepResult step = golden_ranks(plan).step(golden_inputs());
    for (int shard = 0; shard < golden_world; ++shard) {
      const auto at = static_cast<std::size_t>(shard);
      for (int sender = 0; sender < golden_world; ++sender) {
        put_packet(packet_name(format, map, 1, sender, shard),
                   packet(plan, 1, sender, shard, step.leg1[static_cast<std::size_t>(sender)][at]));
      }
      put_packet(packet_name(format, map, 2, shard, shard), packet(plan, 2, shard, shard, step.leg2[at]));
    }
    out.push_back(
        tensor_of(format + "/" + map_name(map) + "/decoded", "F32", {6, 40}, step.outputs[0].data(), step.outputs[0].size()));
  }
  const gift::Status status = gift::write_safetensors(
      golden_path, out,
      {{"protocol", std::to_string(gift::packet_version)}, {"made_by", "conformance \"[rewrite-golden-packets]\""}});
  INFO(status.message());
  REQUIRE(status.ok());
}
