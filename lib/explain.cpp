// How one number rounds, in words: the rule, the two neighbouring codes, the one that is taken.
#include <bit>
#include <cmath>

#include "gift/verify.hpp"
#include "golden.hpp"

namespace gift {
namespace {

using golden::hex;
using golden::shortest;

struct RoundingRule {
  Element element;
  const char* name;    ///< of the element
  unsigned sign_code;  ///< the bit of the code that is the sign
  unsigned last_code;  ///< of the finite numbers
  const char* overflow;
};

constexpr RoundingRule rules[] = {
    {Element::e4m3, "E4M3", 0x80, 0x7e, "finite numbers beyond 448 (from just above 464) saturate at 448; no Inf; NaN is 0x7f"},
    {Element::e5m2, "E5M2", 0x80, 0x7b, "finite numbers from 61440 on saturate at 57344, and so does Inf; NaN is 0x7f"},
    {Element::e2m1, "E2M1", 0x8, 0x7, "numbers beyond 6 saturate at 6; no Inf, no NaN (NaN becomes 0 and the tensor is flagged)"},
    {Element::bf16, "BF16", 0x8000, 0x7f7f, "finite numbers beyond the largest saturate there; Inf and NaN are kept"},
};

const RoundingRule* rule_for(Format format) {
  switch (format) {
    case Format::e4m3:
    case Format::mxfp8:
      return &rules[0];
    case Format::e5m2:
      return &rules[1];
    case Format::nvfp4:
    case Format::mxfp4:
      return &rules[2];
    case Format::bf16:
      return &rules[3];
    default:
      return nullptr;
  }
}

Result<float> value_of(const Backend& backend, Element element, unsigned code) {
  const auto wanted = static_cast<std::uint16_t>(code);
  float value = 0;
  if (Status s = backend.expand(element, std::span(&wanted, 1), std::span(&value, 1)); !s.ok()) return s;
  return value;
}

std::string line(const char* what, unsigned code, float value, float x) {
  return std::string("  ") + what + "  code " + hex(code, 2) + " = " + shortest(value) + ", " +
         shortest(static_cast<float>(std::fabs(double{value} - double{x}))) + " away\n";
}

Result<std::string> explain(const Backend& backend, const RoundingRule& rule, float x) {
  std::uint16_t taken = 0;
  if (Status s = backend.convert(rule.element, Rounding::rne, {}, 0, std::span(&x, 1), std::span(&taken, 1)); !s.ok()) return s;
  Result<float> result = value_of(backend, rule.element, taken);
  if (!result.ok()) return result.status();
  std::string text = shortest(x) + " in " + rule.name +
                     " (one element, before any scale): round to nearest, ties to the even code;\n  " + rule.overflow + "\n";
  const std::string outcome = "  taken  code " + hex(taken, 2) + " = " + shortest(*result);
  if (!std::isfinite(x)) return text + outcome + "\n";
  // The finite codes of x's sign, from zero outwards: the last that is not beyond x, and the next.
  const unsigned sign = std::signbit(x) ? rule.sign_code : 0;
  float inner = 0, outer = 0;
  unsigned code = 0;
  for (unsigned c = 0; c <= rule.last_code; ++c) {
    Result<float> value = value_of(backend, rule.element, c | sign);
    if (!value.ok()) return value.status();
    if (std::fabs(*value) > std::fabs(x)) break;
    inner = *value;
    code = c;
  }
  if (inner == x) return text + outcome + ", exactly\n";
  text += line("inner", code | sign, inner, x);
  if (code == rule.last_code) return text + outcome + ", the largest\n";
  Result<float> next = value_of(backend, rule.element, (code + 1) | sign);
  if (!next.ok()) return next.status();
  outer = *next;
  text += line("outer", (code + 1) | sign, outer, x);
  const bool tie = double{x} - double{inner} == double{outer} - double{x};
  return text + outcome + (tie ? ", a tie: the even code\n" : ", the nearer one\n");
}

}  // namespace

Result<std::string> explain_rounding(const std::string& format, float value) {
  Result<FormatSpec> spec = parse_format(format);
  if (!spec.ok()) return spec.status();
  const RoundingRule* rule = rule_for(spec->format);
  if (rule == nullptr) return Status(Code::invalid_argument, "format " + format + " rounds nothing");
  if (spec->rounding == Rounding::sr) {
    return Status(Code::invalid_argument,
                  "format " + format + ": stochastic rounding takes either neighbour; ask for the nearest");
  }
  Result<std::shared_ptr<const Backend>> backend = open_backend("ref");
  if (!backend.ok()) return backend.status();
  return explain(**backend, *rule, value);
}

}  // namespace gift
