// Names of coordinate maps and sides, and the block of a Hadamard map.
#include "gift/geometry.hpp"

#include <array>
#include <vector>

#include "text.hpp"

namespace gift {
namespace {

constexpr std::array<const char*, 4> kind_names = {"euclidean", "hadamard", "whiten", "deflate"};
constexpr std::array<const char*, 4> side_names = {"none", "right", "left", "both"};
constexpr std::int32_t default_block_limit = 128;

template <std::size_t N>
Result<std::size_t> index_of(const std::array<const char*, N>& names, std::string_view text, const char* what) {
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i]) return i;
  }
  return Status(Code::invalid_argument, std::string("no ") + what + " is called " + in_quotes(text) +
                                            suggestion(text, std::vector<std::string>(names.begin(), names.end())));
}

}  // namespace

const char* geometry_name(GeometryKind kind) noexcept {
  const auto i = static_cast<std::size_t>(kind);
  return i < kind_names.size() ? kind_names[i] : "unknown";
}

const char* side_name(Side side) noexcept {
  const auto i = static_cast<std::size_t>(side);
  return i < side_names.size() ? side_names[i] : "unknown";
}

Result<GeometryKind> parse_geometry(std::string_view text) {
  const Result<std::size_t> i = index_of(kind_names, text, "geometry");
  if (!i.ok()) return i.status();
  return static_cast<GeometryKind>(*i);
}

Result<Side> parse_side(std::string_view text) {
  const Result<std::size_t> i = index_of(side_names, text, "side");
  if (!i.ok()) return i.status();
  return static_cast<Side>(*i);
}

Result<std::int32_t> hadamard_block(std::int64_t cols, std::int32_t wanted) {
  if (cols <= 0) return Status(Code::invalid_argument, "hadamard needs columns, got " + std::to_string(cols));
  if (wanted == 0) {
    std::int32_t block = 1;
    while (block < default_block_limit && cols % (2 * block) == 0) block *= 2;
    return block;
  }
  if (wanted < 0 || (wanted & (wanted - 1)) != 0) {
    return Status(Code::invalid_argument, "hadamard block " + std::to_string(wanted) + " is not a power of two");
  }
  if (cols % wanted != 0) {
    return Status(Code::invalid_argument,
                  "hadamard block " + std::to_string(wanted) + " does not divide the " + std::to_string(cols) + " columns");
  }
  return wanted;
}

}  // namespace gift
