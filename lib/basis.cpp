// Bases: what a side must be before anything is sent in its coordinates, the scales of whitening, and the hashes that tell two
// ranks whether they hold the same map.
#include "gift/basis.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "packet.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr double orthonormal_tolerance = 1e-6;

std::string text_of(double value) {
  char buffer[40];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, 6);
  return {buffer, end.ptr};
}

Status invalid(const std::string& message) { return Status(Code::invalid_argument, message); }

/// Numbers as they are hashed: little-endian, one after the other.
class HashedBytes {
 public:
  void add(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void add(const std::vector<float>& values) {
    for (const float v : values) add(std::bit_cast<std::uint32_t>(v), 4);
  }
  void add(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  void add(const Hash128& hash) {
    for (const std::uint8_t b : hash.bytes) bytes_.push_back(static_cast<std::byte>(b));
  }
  Hash128 hash() const { return xxh3_128(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

Status check_finite(const std::vector<float>& values, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return invalid(std::string(what) + " is " + text_of(values[i]) + " at index " + std::to_string(i));
    }
  }
  return Status();
}

Status check_orthonormal(const SideBasis& b) {
  const auto r = static_cast<std::size_t>(b.rank);
  std::vector<double> products(r * r, 0.0);
  for (std::size_t k = 0; k < static_cast<std::size_t>(b.dim); ++k) {
    const float* row = b.u.data() + k * r;
    for (std::size_t i = 0; i < r; ++i) {
      const double value = row[i];
      for (std::size_t j = i; j < r; ++j) products[i * r + j] += value * static_cast<double>(row[j]);
    }
  }
  for (std::size_t i = 0; i < r; ++i) {
    for (std::size_t j = i; j < r; ++j) {
      const double off = std::abs(products[i * r + j] - (i == j ? 1.0 : 0.0));
      if (!(off <= orthonormal_tolerance)) {
        return invalid("U is not orthonormal: columns " + std::to_string(i) + " and " + std::to_string(j) + " are off by " +
                       text_of(off) + ", limit 1e-6");
      }
    }
  }
  return Status();
}

/// D' has to be the inverse that belongs to D, or the way back would not undo the way there.
Status check_whiten(const SideBasis& b) {
  const auto r = static_cast<std::size_t>(b.rank);
  if (b.d.size() != r || b.d_inv.size() != r) {
    return invalid("whiten needs D and D' of " + std::to_string(r) + " numbers, got " + std::to_string(b.d.size()) + " and " +
                   std::to_string(b.d_inv.size()));
  }
  if (const Status s = check_finite(b.d, "D"); !s.ok()) return s;
  if (const Status s = check_finite(b.d_inv, "D'"); !s.ok()) return s;
  for (std::size_t j = 0; j < r; ++j) {
    const double d = b.d[j];
    if (!(d < 1.0)) return invalid("D is " + text_of(d) + " at index " + std::to_string(j) + ": only D < 1 can be undone");
    if (static_cast<float>(d / (1.0 - d)) != b.d_inv[j]) {
      return invalid("D' is not D/(1 - D) at index " + std::to_string(j) + ": " + text_of(b.d_inv[j]) + " for D " + text_of(d));
    }
  }
  return Status();
}

Status check_side(const SideBasis& b, bool used, GeometryKind kind) {
  if (!used) {
    if (b.rank == 0 && b.u.empty() && b.d.empty() && b.d_inv.empty()) return Status();
    return invalid("holds a basis of rank " + std::to_string(b.rank) + " that its geometry does not use");
  }
  if (b.dim < 1 || b.rank < 1 || b.rank > b.dim) {
    return invalid("rank " + std::to_string(b.rank) + " of dimension " + std::to_string(b.dim) + " is impossible");
  }
  if (b.dim > std::numeric_limits<std::int64_t>::max() / b.rank ||
      b.u.size() != static_cast<std::size_t>(b.dim) * static_cast<std::size_t>(b.rank)) {
    return invalid("U has " + std::to_string(b.u.size()) + " numbers, " + std::to_string(b.dim) + " x " + std::to_string(b.rank) +
                   " are due");
  }
  if (const Status s = check_finite(b.u, "U"); !s.ok()) return s;
  if (const Status s = check_orthonormal(b); !s.ok()) return s;
  if (kind == GeometryKind::whiten) return check_whiten(b);
  if (!b.d.empty() || !b.d_inv.empty()) return invalid("deflate has no D");
  return Status();
}

void hash_side(HashedBytes& bytes, const SideBasis& b) {
  bytes.add(static_cast<std::uint64_t>(b.dim), 8);
  bytes.add(static_cast<std::uint64_t>(b.rank), 8);
  bytes.add(b.d.size(), 8);
  bytes.add(b.u);
  bytes.add(b.d);
  bytes.add(b.d_inv);
}

Status check_factor(const std::vector<double>& l, double trace, std::int64_t n, double exponent, double damping) {
  const auto r = static_cast<std::int64_t>(l.size());
  if (r < 1 || r > n)
    return invalid("whiten: " + std::to_string(r) + " eigenvalues of a factor of dimension " + std::to_string(n));
  if (!(exponent > 0.0 && exponent <= 1.0)) return invalid("whiten: exponent " + text_of(exponent) + " is not in (0, 1]");
  if (!(damping >= 0.0) || !std::isfinite(damping)) return invalid("whiten: damping " + text_of(damping) + " is not >= 0");
  if (!std::isfinite(trace) || trace < 0.0) return invalid("whiten: trace " + text_of(trace) + " is not a finite number >= 0");
  for (std::size_t j = 0; j < l.size(); ++j) {
    if (!std::isfinite(l[j]) || l[j] < 0.0 || (j > 0 && l[j] > l[j - 1])) {
      return invalid("whiten: eigenvalue " + std::to_string(j) + " is " + text_of(l[j]) +
                     ": finite, >= 0 and descending are due");
    }
  }
  return Status();
}

}  // namespace

std::string to_string(const Hash128& hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t b : hash.bytes) {
    text += digits[b >> 4];
    text += digits[b & 15];
  }
  return text;
}

Status LayerBasis::seal() {
  if (kind != GeometryKind::whiten && kind != GeometryKind::deflate) {
    return invalid(std::string(geometry_name(kind)) + " needs no basis");
  }
  if (side == Side::none) return invalid(std::string(geometry_name(kind)) + " needs a side");
  if (const Status s = check_side(right, has_right(side), kind); !s.ok()) return s.at("right");
  if (const Status s = check_side(left, has_left(side), kind); !s.ok()) return s.at("left");
  HashedBytes bytes;
  bytes.add(static_cast<std::uint64_t>(side), 8);
  if (has_right(side)) hash_side(bytes, right);
  if (has_left(side)) hash_side(bytes, left);
  hash = bytes.hash();
  return Status();
}

Status whiten_scales(const std::vector<double>& l, double trace, std::int64_t n, double exponent, double damping,
                     std::vector<float>& d, std::vector<float>& d_inv) {
  if (const Status s = check_factor(l, trace, n, exponent, damping); !s.ok()) return s;
  const auto r = static_cast<std::int64_t>(l.size());
  const double mean = trace / static_cast<double>(n);
  double top = 0.0;
  for (const double value : l) top += value;
  double tail = r == n ? mean : (trace - top) / static_cast<double>(n - r);
  // What is left after subtracting nearly all of the trace is rounding, not energy.
  if (tail < mean * static_cast<double>(n) * std::numeric_limits<double>::epsilon()) tail = 0.0;
  const double floor = tail + damping * mean;
  if (!(floor > 0.0) || !std::isfinite(floor)) {
    return invalid("whiten: tail + damping * mean is " + text_of(floor) + " (trace " + text_of(trace) + ", damping " +
                   text_of(damping) + "): a factor without a tail needs damping");
  }
  std::vector<float> new_d, new_d_inv;
  for (std::size_t j = 0; j < l.size(); ++j) {
    const auto rounded = static_cast<float>(1.0 - std::pow((l[j] + damping * mean) / floor, -exponent));
    const double value = rounded;
    const auto inverse = static_cast<float>(value / (1.0 - value));
    if (!(value < 1.0) || !std::isfinite(rounded) || !std::isfinite(inverse)) {
      return invalid("whiten: eigenvalue " + text_of(l[j]) + " over a tail of " + text_of(floor) +
                     " cannot be undone in FP32; use more damping");
    }
    new_d.push_back(rounded);
    new_d_inv.push_back(inverse);
  }
  d = std::move(new_d);
  d_inv = std::move(new_d_inv);
  return Status();
}

Hash128 BasisSet::hash() const {
  if (layers.empty()) return Hash128{};
  HashedBytes bytes;
  for (const auto& [name, layer] : layers) {
    bytes.add(name.size(), 8);
    bytes.add(name);
    bytes.add(layer ? layer->hash : Hash128{});
  }
  return bytes.hash();
}

}  // namespace gift
