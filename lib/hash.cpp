// Checksums and content hashes: XXH3 by libxxhash. Input is bytes, so a caller that hashes numbers lays them out little-endian
// first; the 128-bit result is kept in XXH3's canonical byte order, which is the same on every machine.
#include <xxhash.h>

#include <algorithm>
#include <iterator>

#include "packet.hpp"

namespace gift {

std::uint64_t xxh3_64(ConstBytes bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

Hash128 xxh3_128(ConstBytes bytes) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Hash128 hash;
  static_assert(sizeof(canonical.digest) == sizeof(hash.bytes));
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), hash.bytes.begin());
  return hash;
}

}  // namespace gift
