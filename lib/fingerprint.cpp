// What the fingerprint hashes: names, shapes, formats, recipe and bases, in one canonical little-endian byte string each.
#include <bit>
#include <cstring>
#include <string>

#include "packet.hpp"
#include "plan_internal.hpp"

namespace gift {
namespace {

/// Collects numbers as eight little-endian bytes each and texts with their length in front, so that no two lists of fields give
/// the same bytes.
class ByteString {
 public:
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<std::byte>(value >> shift & 0xFF));
  }
  void number(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
  void number(std::int32_t value) { number(static_cast<std::int64_t>(value)); }
  void number(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  template <class E>
  requires std::is_enum_v<E>
  void number(E value) { number(static_cast<std::int64_t>(value)); }
  void flag(bool value) { number(static_cast<std::uint64_t>(value ? 1 : 0)); }
  void text(const std::string& value) {
    number(static_cast<std::uint64_t>(value.size()));
    for (const char c : value) bytes_.push_back(static_cast<std::byte>(c));
  }
  std::uint64_t hash() const { return xxh3_64(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::uint64_t hash_text(const std::string& text) {
  return xxh3_64(ConstBytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

std::uint64_t hash_shapes(const std::vector<TensorPlan>& tensors) {
  ByteString bytes;
  for (const TensorPlan& t : tensors) {
    bytes.text(t.name);
    bytes.number(static_cast<std::uint64_t>(t.shape.size()));
    for (const std::int64_t extent : t.shape) bytes.number(extent);
    bytes.number(t.dtype);
  }
  return bytes.hash();
}

std::uint64_t hash_formats(const std::vector<TensorPlan>& tensors) {
  ByteString bytes;
  for (const TensorPlan& t : tensors) {
    bytes.number(t.world);
    bytes.number(t.rows);
    bytes.number(t.cols);
    bytes.number(t.format.format);
    bytes.number(t.format.granularity);
    bytes.number(t.format.block);
    bytes.number(t.format.rounding);
    bytes.number(t.format.mx_scale);
    bytes.number(t.geometry.kind);
    bytes.number(t.geometry.side);
    bytes.number(t.geometry.hadamard_block);
    bytes.number(t.geometry.exponent);
    bytes.number(t.geometry.damping);
    bytes.number(t.rank_right());
    bytes.number(t.rank_left());
    bytes.number(t.op);
    bytes.flag(t.error_feedback);
    bytes.flag(t.exempt);
  }
  return bytes.hash();
}

std::uint64_t hash_bases(const std::vector<TensorPlan>& tensors) {
  BasisSet used;
  for (const TensorPlan& t : tensors) {
    if (t.basis) used.layers.emplace(t.name, t.basis);
  }
  if (used.layers.empty()) return 0;
  const Hash128 hash = used.hash();
  std::uint64_t low = 0;  // the canonical form is big-endian: the low half comes last
  for (std::size_t i = 8; i < 16; ++i) low = low << 8 | std::to_integer<std::uint64_t>(std::byte{hash.bytes[i]});
  return low;
}

}  // namespace gift
