// Version of the library, and what it was built with and runs on. Everything that can be asked at run time is asked then, so that
// the answer is about the libraries that are loaded and not about those of the build machine.
#include "gift/version.hpp"

#include <cblas.h>
#include <dlfcn.h>
#include <xxhash.h>

#include <Eigen/Core>

#include "plugin.hpp"

namespace gift {
namespace {

std::string dotted(unsigned major, unsigned minor, unsigned patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string compiler() {
#if defined(__clang__)
  return "clang++ " + dotted(__clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return "g++ " + dotted(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string blas() {
  const int threads = openblas_get_num_threads();
  return std::string(openblas_get_config()) + ", core " + openblas_get_corename() + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

/// What a plug-in says about the library it brings, through a function `symbol` of type const char*(void).
std::string from_plugin(const char* file, const char* folder, const char* symbol, bool built) {
  const auto handle = open_plugin(file, folder, RTLD_LAZY | RTLD_LOCAL);
  if (!handle.ok()) return built ? "built, but " + handle.status().message() : std::string("not built");
  using Describe = const char* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(*handle, symbol));
  const char* text = describe ? describe() : nullptr;
  return text ? text : std::string(file) + " does not say";
}

/// What the compiler may use everywhere; faster paths ask the processor first.
std::string built_sets() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__AVX__)
  return "AVX";
#elif defined(__SSE2__)
  return "SSE2";
#elif defined(__ARM_NEON)
  return "NEON";
#else
  return "none";
#endif
}

std::string machine_sets() {
  std::string sets;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) sets += (sets.empty() ? "" : ", ") + std::string(name);
  };
  __builtin_cpu_init();
  add(__builtin_cpu_supports("sse4.2"), "SSE4.2");
  add(__builtin_cpu_supports("avx2"), "AVX2");
  add(__builtin_cpu_supports("fma"), "FMA");
  add(__builtin_cpu_supports("avx512f"), "AVX-512F");
  add(__builtin_cpu_supports("avx512bw"), "AVX-512BW");
#endif
  return sets.empty() ? "no others known" : sets;
}

constexpr std::uint32_t number_of(const char* text) {
  std::uint32_t parts[3] = {}, part = 0;
  for (; *text; ++text) {
    if (*text == '.') {
      ++part;
    } else if (*text >= '0' && *text <= '9' && part < 3) {
      parts[part] = parts[part] * 10 + static_cast<std::uint32_t>(*text - '0');
    } else {
      break;
    }
  }
  return parts[0] * 1'000'000 + parts[1] * 1'000 + parts[2];
}
static_assert(number_of("1.2.3") == 1'002'003 && number_of("0.10.0-rc1") == 10'000);

}  // namespace

const char* version() noexcept { return GIFT_VERSION; }

std::uint32_t version_number() noexcept { return number_of(GIFT_VERSION); }

std::vector<std::string> build_facts() {
  const unsigned xxh = XXH_versionNumber();
  return {
      "compiler: " + compiler(),
      "BLAS: " + blas(),
      "Eigen: " + dotted(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION),
      "xxHash: " + dotted(xxh / 10000, xxh / 100 % 100, xxh % 100),
      "MPI: " + from_plugin("libgift_mpi.so", "mpi", "gift_mpi_version", GIFT_BUILT_MPI),
      "CUDA: " + from_plugin("libgift_cuda.so", "../cuda", "gift_cuda_version", GIFT_BUILT_CUDA),
      "NCCL: " + from_plugin("libgift_cuda.so", "../cuda", "gift_nccl_version", GIFT_BUILT_CUDA),
      "instruction sets: built for " + built_sets() + "; this machine has " + machine_sets(),
  };
}

}  // namespace gift
