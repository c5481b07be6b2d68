// A host program that flushes subnormals or rounds another way must get the same bytes, and its settings back.
#include <cfenv>
#include <cstring>

#include "catch.hpp"
#include "codec_kit.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace codec_kit;
namespace ref = gift::ref;

namespace {

Matrix subnormal_matrix() {
  Floats x;
  for (std::uint32_t i = 0; i < 40; ++i) x.push_back(from_bits((i * 209713u) % 0x00800000u));
  return {2, 20, x};
}

std::vector<Bytes> all_payloads() {
  const ref::FpEnvironment environment;
  std::vector<Bytes> payloads;
  for (const Path& path : paths()) {
    for (const std::string& format : nearest_formats()) {
      const Encoded e = encode(path, format, subnormal_matrix());
      payloads.push_back(e.payload);
      const Floats x = decode(path, e);
      Bytes decoded(x.size() * sizeof(float));
      std::memcpy(decoded.data(), x.data(), decoded.size());
      payloads.push_back(decoded);
    }
  }
  return payloads;
}

}  // namespace

#if defined(__x86_64__)

TEST_CASE("flush-to-zero and denormals-are-zero of the host change no byte and come back", "[environment]") {
  const std::vector<Bytes> plain = all_payloads();
  const unsigned host = _mm_getcsr();
  const unsigned flushing = host | 0x8040u;  // FTZ, DAZ
  _mm_setcsr(flushing);
  // Negative control: outside the environment a subnormal product does vanish.
  volatile float tiny = from_bits(0x00400000u);
  const volatile float product = tiny * 1.5f;
  const bool flushed = bits(product) == 0;
  const std::vector<Bytes> guarded = all_payloads();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(host);
  CHECK(flushed);
  CHECK((after & ~0x3fu) == (flushing & ~0x3fu));
  CHECK(guarded == plain);
}

#endif

TEST_CASE("the host's rounding mode changes no byte and comes back", "[environment]") {
  const std::vector<Bytes> plain = all_payloads();
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    REQUIRE(std::fesetround(mode) == 0);
    const std::vector<Bytes> guarded = all_payloads();
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(after == mode);
    CHECK(guarded == plain);
  }
}
