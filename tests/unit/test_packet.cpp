// The packet header: what is written is read back, and nothing else is accepted.
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "packet.hpp"

using namespace gift;

namespace {

PacketHeader sample() {
  PacketHeader h;
  h.leg = 2;
  h.flags = flag_non_finite | flag_non_zero;
  h.tensor_id = 0x01020304;
  h.sender = 2;
  h.world = 5;
  h.shard = 2;
  h.step = 0x1122334455667788;
  h.rows = 1000;
  h.cols = std::int64_t{1} << 40;
  h.row_begin = 400;
  h.row_end = 600;
  h.format = {Format::e4m3, Granularity::block, 128, Rounding::sr, MxScale::floor};
  h.geometry = GeometryKind::deflate;
  h.side = Side::both;
  h.rank_right = 32;
  h.rank_left = 16;
  for (std::size_t i = 0; i < 16; ++i) h.basis.bytes[i] = static_cast<std::uint8_t>(0xA0 + i);
  h.non_finite_rank = 3;
  h.error = {Code::mismatch, Field::step, 4, 77, 78};
  h.payload_bytes = 32;
  h.payload_hash = 0xDEADBEEFCAFEF00D;
  return h;
}

std::vector<std::byte> written(const PacketHeader& h) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(packet_header_bytes), std::byte{0xFF});
  write_header(h, bytes.data());
  return bytes;
}

/// Writes without the checks that a parser makes, so that the checksum is right and the content is not.
bool accepted(const PacketHeader& h) { return parse_header(written(h)).ok(); }

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("a header comes back as it was written", "[packet]") {
  const PacketHeader h = sample();
  const Result<PacketHeader> back = parse_header(written(h));
  REQUIRE(back.ok());
  CHECK(written(back.value()) == written(h));
  CHECK(back->cols == h.cols);
  CHECK(back->step == h.step);
  CHECK(back->format == h.format);
  CHECK(back->basis == h.basis);
  CHECK(back->non_finite_rank == 3);
  CHECK(back->error.code == Code::mismatch);
  CHECK(back->error.field == Field::step);
  CHECK(back->error.value == 77);
  CHECK(compare_header(back.value(), h).code == Code::ok);
}

TEST_CASE("header bytes are the ones of version 1, for ever", "[packet][golden]") {
  CHECK(hex(written(sample())) ==
        "474946540100050002020301010303000403020102000000050000000200000080000000200000001000000003000000"
        "8877665544332211e803000000000000000000000001000090010000000000005802000000000000a0a1a2a3a4a5a6a7"
        "a8a9aaabacadaeaf05010000040000004d000000000000004e0000000000000020000000000000000df0fecaefbeadde"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000005a91231f4ee12101");
}

TEST_CASE("every single-bit flip of a header is refused", "[packet]") {
  std::vector<std::byte> bytes = written(sample());
  REQUIRE(parse_header(bytes).ok());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const Result<PacketHeader> got = parse_header(bytes);
    REQUIRE_FALSE(got.ok());
    REQUIRE(got.status().code() == Code::bad_packet);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST_CASE("a header cut short is refused at every length", "[packet]") {
  const std::vector<std::byte> bytes = written(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(n));  // own block: ASan sees a read beyond
    REQUIRE_FALSE(parse_header(cut).ok());
  }
}

TEST_CASE("a header with a right checksum and wrong content is refused", "[packet]") {
  const auto with = [](auto change) {
    PacketHeader h = sample();
    change(h);
    return accepted(h);
  };
  CHECK(with([](PacketHeader&) {}));
  CHECK_FALSE(with([](PacketHeader& h) { h.leg = 0; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.leg = 3; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.flags = 8; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.world = 0; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.world = 0x80000000U; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.sender = 5; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.shard = 5; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.error.rank = 5; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.non_finite_rank = 5; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.non_finite_rank = -2; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.rows = -1; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.cols = -1; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.cols = std::int64_t{1} << 62; }));           // rows * cols wraps
  CHECK_FALSE(with([](PacketHeader& h) { h.rows = h.cols = std::int64_t{1} << 32; }));  // wraps to zero
  CHECK_FALSE(with([](PacketHeader& h) { h.row_begin = 601; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.row_begin = -1; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.row_end = 1001; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.format.block = -1; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.rank_left = 1001; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.rank_right = -1; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.payload_bytes = ~std::uint64_t{0}; }));
  CHECK_FALSE(with([](PacketHeader& h) { h.format.format = static_cast<Format>(7); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.format.granularity = static_cast<Granularity>(4); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.format.rounding = static_cast<Rounding>(2); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.geometry = static_cast<GeometryKind>(4); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.side = static_cast<Side>(4); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.error.code = static_cast<Code>(12); }));
  CHECK_FALSE(with([](PacketHeader& h) { h.error.field = static_cast<Field>(255); }));
}

TEST_CASE("a packet's payload has the size and the checksum that its header says", "[packet]") {
  PacketHeader h = sample();
  std::vector<std::byte> bytes(static_cast<std::size_t>(packet_header_bytes) + 32, std::byte{0x5A});
  h.payload_hash = xxh3_64(ConstBytes(bytes).subspan(static_cast<std::size_t>(packet_header_bytes)));
  write_header(h, bytes.data());
  ConstBytes payload;
  REQUIRE(parse_packet(bytes, payload).ok());
  CHECK(payload.size() == 32);
  for (std::size_t bit = static_cast<std::size_t>(packet_header_bytes) * 8; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    REQUIRE_FALSE(parse_packet(bytes, payload).ok());
    REQUIRE(payload.empty());
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  CHECK_FALSE(parse_packet(ConstBytes(bytes).first(bytes.size() - 1), payload).ok());
  bytes.push_back(std::byte{0});
  CHECK_FALSE(parse_packet(bytes, payload).ok());
  bytes.pop_back();
  h.payload_bytes = ~std::uint64_t{0} - 100;  // header bytes + this wraps
  write_header(h, bytes.data());
  CHECK_FALSE(parse_packet(bytes, payload).ok());
}

TEST_CASE("what differs between two headers is named with both values", "[packet]") {
  TensorPlan tensor;
  tensor.name = "fc1.weight";
  const auto text = [&tensor](auto change) {
    PacketHeader got = sample();
    change(got);
    const WireError error = compare_header(got, sample());
    return to_status(error, tensor).message();
  };
  CHECK(text([](PacketHeader&) {}).empty());
  CHECK(text([](PacketHeader& h) { h.step = 5; }) == "rank 2: fc1.weight: step is 5, rank 0 has 1234605616436508552");
  CHECK(text([](PacketHeader& h) { h.rows = 1001; }) == "rank 2: fc1.weight: rows is 1001, rank 0 has 1000");
  CHECK(text([](PacketHeader& h) { h.format.format = Format::e5m2; }) == "rank 2: fc1.weight: format is e5m2, rank 0 has e4m3");
  CHECK(text([](PacketHeader& h) { h.geometry = GeometryKind::whiten; }) ==
        "rank 2: fc1.weight: geometry is whiten, rank 0 has deflate");
  CHECK(text([](PacketHeader& h) { h.format.rounding = Rounding::rne; }) == "rank 2: fc1.weight: rounding is rne, rank 0 has sr");
  CHECK(text([](PacketHeader& h) { h.basis.bytes[0] = 0; }) ==
        "rank 2: fc1.weight: basis hash is 00a1a2a3a4a5a6a7, rank 0 has a0a1a2a3a4a5a6a7");
  CHECK_FALSE(text([](PacketHeader& h) { h.basis.bytes[15] = 0; }).empty());
  CHECK(text([](PacketHeader& h) { h.payload_bytes = 1; }) == "rank 2: fc1.weight: payload bytes is 1, rank 0 has 32");
  CHECK(to_status({Code::invalid_argument, Field::buffer_count, 1, 11, 10}, tensor).message() ==
        "rank 1: fc1.weight: buffer has 11 elements, expected 10");
}
