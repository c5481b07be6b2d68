// Encoded matrices that numpy made from the formulas (fixtures/golden/block_encodings.inc), nearest rounding: whole payloads and
// decoded numbers, through the verbs.
#include <cstring>

#include "verify_internal.hpp"

namespace gift::verification {
namespace {

struct Input {
  const char* name;
  std::int64_t rows, cols;
  const char* hex;
};
constexpr Input inputs[] = {
#include "block_inputs.inc"
};

struct Encoding {
  const char* format;
  const char* input;
  const char* payload;
  const char* decoded;
};
constexpr Encoding encodings[] = {
#include "block_encodings.inc"
};

std::vector<std::byte> from_hex(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(16 * digit(hex[i]) + digit(hex[i + 1])));
  return bytes;
}

std::vector<float> numbers(std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  std::vector<float> x(bytes.size() / sizeof(float));
  if (!x.empty()) std::memcpy(x.data(), bytes.data(), bytes.size());
  return x;
}

const Input* find_input(std::string_view name) {
  for (const Input& input : inputs) {
    if (name == input.name) return &input;
  }
  return nullptr;
}

Status check(Context& context, const Encoding& golden) {
  const Input* input = find_input(golden.input);
  if (input == nullptr) return Status(Code::internal, std::string("golden tables: no input ") + golden.input);
  const FormatSpec format = parse_format(golden.format).value();
  Result<TensorPlan> plan =
      plan_tensor({golden.input, {input->rows, input->cols}, Dtype::f32}, format, {}, nullptr, false, ReduceOp::sum, 1);
  if (!plan.ok()) return plan.status();
  const PayloadLayout& layout = plan->leg1[0];
  std::vector<std::byte> payload(static_cast<std::size_t>(layout.total_bytes), std::byte{0xa5});
  std::byte* const target = payload.data();
  const std::vector<float> x = numbers(input->hex);
  EncodeStats stats;
  EncodeArgs encode;
  encode.tensor = &*plan;
  encode.input = x.data();
  encode.payloads = std::span(&target, 1);
  encode.stats = &stats;
  if (Status s = context.subject.encode(encode); !s.ok()) return s;
  const std::string where = std::string(golden.format) + " of " + golden.input;
  const std::size_t elements = static_cast<std::size_t>(layout.elem_offset);
  compare_bytes(context.row(std::string(format_name(format.format)) + " encodings", "table"),
                std::span(payload).subspan(elements), from_hex(golden.payload), where);

  std::vector<float> decoded(x.size(), 1.5e33f);
  const std::byte* const source = payload.data();
  DecodeArgs decode;
  decode.tensor = &*plan;
  decode.leg = 1;
  decode.payloads = std::span(&source, 1);
  decode.output = decoded.data();
  if (Status s = context.subject.decode(decode); !s.ok()) return s;
  compare_floats(context.row(std::string(format_name(format.format)) + " encodings, decoded", "table"), decoded,
                 numbers(golden.decoded), where);
  return Status();
}

}  // namespace

Status verify_encodings(Context& context) {
  for (const Encoding& golden : encodings) {
    // The stochastic ones start at row 5 of their tensor, which a plan of one rank cannot say: the conformance tests hold them.
    if (std::string_view(golden.format).ends_with(":sr")) continue;
    if (Status s = check(context, golden); !s.ok()) return s;
  }
  return Status();
}

}  // namespace gift::verification
