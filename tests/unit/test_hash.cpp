// xxh3_64 and xxh3_128 against the published test vectors of xxHash (its own `xxhsum -H3` and `-H2`).
#include <cstdint>
#include <string>
#include <string_view>

#include "../catch.hpp"
#include "packet.hpp"

namespace {

gift::ConstBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string hex_of(const gift::Hash128& hash) {
  const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : hash.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("xxh3 gives the published hashes") {
  CHECK(gift::xxh3_64({}) == 0x2d06800538d394c2u);
  CHECK(gift::xxh3_64(bytes_of("a")) == 0xe6c632b61e964e1fu);
  CHECK(gift::xxh3_64(bytes_of("abc")) == 0x78af5f94892f3950u);
  CHECK(hex_of(gift::xxh3_128({})) == "99aa06d3014798d86001c324468d497f");
  CHECK(hex_of(gift::xxh3_128(bytes_of("a"))) == "a96faf705af16834e6c632b61e964e1f");
  CHECK(hex_of(gift::xxh3_128(bytes_of("abc"))) == "06b05ab6733a618578af5f94892f3950");
}

TEST_CASE("xxh3 of long input depends on every byte and on no alignment") {
  std::string text(1000, 'x');
  const std::uint64_t before = gift::xxh3_64(bytes_of(text));
  const std::string shifted = "?" + text;
  CHECK(gift::xxh3_64(bytes_of(shifted).subspan(1)) == before);
  for (const std::size_t at : {0u, 239u, 240u, 511u, 999u}) {
    text[at] = 'y';
    CHECK(gift::xxh3_64(bytes_of(text)) != before);
    text[at] = 'x';
  }
}
