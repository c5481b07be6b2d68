// The floating-point environment that the contract assumes: round to nearest even, subnormals in and out, no traps. A host
// program may have set flush-to-zero or another rounding mode for itself; it gets its own settings back.
#include <cfenv>

#include "ref_codec.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gift::ref {

#if defined(__x86_64__)

// MXCSR after reset: all exceptions masked, round to nearest, FTZ and DAZ off.
FpEnvironment::FpEnvironment() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80u); }
FpEnvironment::~FpEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }

#elif defined(__aarch64__)

// FPCR 0: round to nearest, FZ off, no traps, default NaN off.
FpEnvironment::FpEnvironment() noexcept {
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved_)::"memory");
  __asm__ volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}) : "memory");
}
FpEnvironment::~FpEnvironment() { __asm__ volatile("msr fpcr, %0" ::"r"(saved_) : "memory"); }

#else

FpEnvironment::FpEnvironment() noexcept : saved_(static_cast<std::uint64_t>(std::fegetround())) { std::fesetround(FE_TONEAREST); }
FpEnvironment::~FpEnvironment() { std::fesetround(static_cast<int>(saved_)); }

#endif

}  // namespace gift::ref
