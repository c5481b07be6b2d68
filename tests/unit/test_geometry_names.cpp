// Names of geometries and sides, and the choice of a Hadamard block.
#include "../catch.hpp"
#include "gift/geometry.hpp"

TEST_CASE("geometry: names parse back, others are refused with the nearest") {
  for (int i = 0; i < 4; ++i) {
    const auto kind = static_cast<gift::GeometryKind>(i);
    const auto side = static_cast<gift::Side>(i);
    CHECK(*gift::parse_geometry(gift::geometry_name(kind)) == kind);
    CHECK(*gift::parse_side(gift::side_name(side)) == side);
  }
  CHECK(gift::parse_geometry("defalte").status().message() == "no geometry is called 'defalte'; did you mean 'deflate'?");
  CHECK(gift::parse_side("up").status().message() == "no side is called 'up'; valid are none, right, left, both");
  CHECK(std::string(gift::geometry_name(static_cast<gift::GeometryKind>(9))) == "unknown");
}

TEST_CASE("geometry: hadamard block is a power of two that divides the columns") {
  CHECK(*gift::hadamard_block(4096, 0) == 128);
  CHECK(*gift::hadamard_block(704, 0) == 64);
  CHECK(*gift::hadamard_block(7, 0) == 1);
  CHECK(*gift::hadamard_block(1, 0) == 1);
  CHECK(*gift::hadamard_block(256, 64) == 64);
  CHECK(*gift::hadamard_block(512, 512) == 512);
  CHECK(gift::hadamard_block(96, 64).status().message() == "hadamard block 64 does not divide the 96 columns");
  CHECK(gift::hadamard_block(96, 48).status().message() == "hadamard block 48 is not a power of two");
  CHECK_FALSE(gift::hadamard_block(96, -2).ok());
  CHECK_FALSE(gift::hadamard_block(0, 0).ok());
}
