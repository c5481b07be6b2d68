// The methods that `fidelity` compares: names, parsing, and the default rows.
#include <charconv>
#include <cmath>

#include "gift/fidelity.hpp"

namespace gift {
namespace {

constexpr std::int32_t default_rank = 32;

bool needs_basis(GeometryKind kind) { return kind == GeometryKind::whiten || kind == GeometryKind::deflate; }

std::string short_number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

Method make(GeometryKind kind, Side side, BasisOrigin origin, std::int32_t rank) {
  Method method;
  method.geometry.kind = kind;
  method.geometry.side = side;
  method.geometry.rank = rank;
  method.origin = origin;
  return method;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

/// Reads "name=value" words; false if the word is none that this kind has, or its value makes no sense.
bool parse_setting(std::string_view word, Method& method) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
  GeometrySpec& geometry = method.geometry;
  if (name == "rank" && needs_basis(geometry.kind)) return parse_number(value, geometry.rank) && geometry.rank > 0;
  if (geometry.kind == GeometryKind::whiten) {
    const auto positive = [&](double& target) { return parse_number(value, target) && std::isfinite(target) && target > 0; };
    if (name == "p") return positive(geometry.exponent);
    if (name == "delta") return positive(geometry.damping);
  }
  if (name == "block" && geometry.kind == GeometryKind::hadamard) {
    std::int32_t& block = geometry.hadamard_block;
    return parse_number(value, block) && block > 0 && (block & (block - 1)) == 0;
  }
  return false;
}

bool parse_word(std::string_view word, Method& method) {
  if (!needs_basis(method.geometry.kind)) return parse_setting(word, method);
  if (const auto side = parse_side(word); side.ok() && *side != Side::none) {
    method.geometry.side = *side;
    return true;
  }
  for (const auto origin : {BasisOrigin::gradients, BasisOrigin::activations, BasisOrigin::own}) {
    if (word == origin_name(origin)) {
      method.origin = origin;
      return true;
    }
  }
  return parse_setting(word, method);
}

}  // namespace

const char* origin_name(BasisOrigin origin) noexcept {
  switch (origin) {
    case BasisOrigin::none:
      return "none";
    case BasisOrigin::gradients:
      return "gradients";
    case BasisOrigin::activations:
      return "activations";
    case BasisOrigin::own:
      return "own";
  }
  return "unknown";
}

std::string coordinates_name(const GeometrySpec& geometry) {
  std::string name = geometry_name(geometry.kind);
  if (geometry.kind == GeometryKind::hadamard && geometry.hadamard_block > 0) {
    name += " " + std::to_string(geometry.hadamard_block);
  }
  if (geometry.kind == GeometryKind::whiten) {
    name += " A^-" + short_number(geometry.exponent) + " delta " + short_number(geometry.damping);
  }
  return name;
}

std::string method_label(const GeometrySpec& geometry, BasisOrigin origin) {
  std::string label = coordinates_name(geometry);
  if (!needs_basis(geometry.kind)) return label;
  const std::string rank = std::to_string(geometry.rank);
  label += " r " + rank + (geometry.side == Side::both ? " + " + rank : "");
  switch (origin) {
    case BasisOrigin::none:
      break;
    case BasisOrigin::gradients:
      label += ", calibrated on gradients";
      break;
    case BasisOrigin::activations:
      label += ", calibrated on activations";
      break;
    case BasisOrigin::own:
      label += ", own SVD (a bound: not summable)";
      break;
  }
  return label + ", " + (geometry.side == Side::both ? "both sides" : side_name(geometry.side));
}

std::vector<Method> default_methods() {
  using enum BasisOrigin;
  std::vector<Method> methods = {make(GeometryKind::euclidean, Side::none, none, 0),
                                 make(GeometryKind::hadamard, Side::right, none, 0)};
  methods.back().geometry.hadamard_block = 64;
  for (const auto& [exponent, damping] : {std::pair{0.5, 1.0}, {0.25, 0.1}}) {
    methods.push_back(make(GeometryKind::whiten, Side::right, activations, default_rank));
    methods.back().geometry.exponent = exponent;
    methods.back().geometry.damping = damping;
  }
  methods.push_back(make(GeometryKind::deflate, Side::right, activations, default_rank));
  for (const std::int32_t rank : {16, 32, 64}) methods.push_back(make(GeometryKind::deflate, Side::right, gradients, rank));
  methods.push_back(make(GeometryKind::deflate, Side::left, gradients, default_rank));
  methods.push_back(make(GeometryKind::deflate, Side::both, gradients, default_rank));
  methods.push_back(make(GeometryKind::deflate, Side::right, own, default_rank));
  for (auto& method : methods) method.label = method_label(method.geometry, method.origin);
  return methods;
}

Result<Method> parse_method(std::string_view text) {
  const std::string_view kind_text = text.substr(0, text.find(':'));
  const auto kind = parse_geometry(kind_text);
  if (!kind.ok()) return kind.status().at("method '" + std::string(text) + "'");
  Method method = make(*kind, Side::right, BasisOrigin::none, 0);
  if (*kind == GeometryKind::euclidean) method.geometry.side = Side::none;
  if (needs_basis(*kind)) {
    method.geometry.rank = default_rank;
    method.origin = *kind == GeometryKind::whiten ? BasisOrigin::activations : BasisOrigin::gradients;
  }
  for (std::size_t begin = kind_text.size(); begin < text.size();) {
    const std::size_t end = std::min(text.find(':', begin + 1), text.size());
    const std::string_view word = text.substr(begin + 1, end - begin - 1);
    if (!parse_word(word, method)) {
      return Status(Code::invalid_argument,
                    "method '" + std::string(text) + "': '" + std::string(word) + "' means nothing for " + geometry_name(*kind));
    }
    begin = end;
  }
  method.label = method_label(method.geometry, method.origin);
  return method;
}

std::vector<Method> at_ranks(const std::vector<Method>& methods, const std::vector<std::int32_t>& ranks) {
  std::vector<Method> out;
  const auto add = [&](Method method) {
    method.label = method_label(method.geometry, method.origin);
    for (const auto& other : out) {
      if (other.geometry == method.geometry && other.origin == method.origin) return;
    }
    out.push_back(std::move(method));
  };
  for (const auto& method : methods) {
    if (!needs_basis(method.geometry.kind)) {
      add(method);
      continue;
    }
    for (const std::int32_t rank : ranks) {
      Method copy = method;
      copy.geometry.rank = rank;
      add(std::move(copy));
    }
  }
  return out;
}

std::vector<FormatSpec> default_fidelity_formats() {
  std::vector<FormatSpec> formats;
  for (const char* text : {"bf16", "e4m3:tensor", "e4m3:block:128", "mxfp8", "nvfp4:row"}) {
    if (auto format = parse_format(text); format.ok()) formats.push_back(*format);
  }
  return formats;
}

}  // namespace gift
