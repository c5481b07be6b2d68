// Runs a fuzz target over files and directories, so that every corpus is a regression test: ./fuzz_X_replay PATH...
// Prints how many inputs were run; the corpus counts as one test, and no input at all is a failure.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz.hpp"

namespace {

std::size_t runs = 0;

/// The file as it is, and cut at a few places: truncation is the commonest damage.
void run_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
  const std::size_t size = content.size();
  for (const std::size_t length : {size, size / 2, size - std::min<std::size_t>(size, 1), std::min<std::size_t>(size, 8)}) {
    const std::vector<std::uint8_t> input(content.begin(),
                                          content.begin() + static_cast<std::ptrdiff_t>(length));  // exact: ASan sees overruns
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  }
}

void run_path(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return run_file(path);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) run_file(file);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::exists(argv[i])) {
      std::fprintf(stderr, "no such corpus: %s\n", argv[i]);
      return 1;
    }
    run_path(argv[i]);
  }
  std::printf("%zu inputs replayed\n%d passed, %d failed\n", runs, runs > 0, runs == 0);
  return runs > 0 ? 0 : 1;
}
