// Philox4x32-10: a counter-based random number generator. Random123's constants (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC'11). Any word can be had without those before it, so the result does not depend on how the
// elements are spread over ranks, threads or devices.
#include "ref_codec.hpp"

namespace gift::ref {
namespace {

constexpr std::uint32_t multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
constexpr std::uint32_t key_step_0 = 0x9E3779B9u, key_step_1 = 0xBB67AE85u;
constexpr int rounds = 10;

}  // namespace

void philox4x32(const std::uint32_t counter[4], std::uint64_t key, std::uint32_t out[4]) noexcept {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{multiplier_0} * c0, p1 = std::uint64_t{multiplier_1} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += key_step_0;
    k1 += key_step_1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

std::uint32_t random_word(const RoundingKey& key, Stage stage, std::uint64_t index) noexcept {
  const std::uint64_t group = index / 4;
  const std::uint32_t counter[4] = {
      static_cast<std::uint32_t>(group),
      (static_cast<std::uint32_t>(group >> 32) & 0xffffu) | (static_cast<std::uint32_t>(stage) << 16),
      key.tensor_id ^ (key.sender * 0x9E3779B9u),
      key.step,
  };
  std::uint32_t words[4];
  philox4x32(counter, key.seed, words);
  return words[index % 4];
}

}  // namespace gift::ref
