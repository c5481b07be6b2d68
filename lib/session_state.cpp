// A session's state in a file: residuals, how often each tensor was reduced, step and seed, by parameter name.
//
// safetensors, one file a rank: `NAME:residual` and `NAME:owner_residual` (F32, rows x columns; only with error feedback), and in
// the metadata "gift.state", a JSON object that says which plan, rank and step this belongs to and the XXH3-128 of all residuals.
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "gift/safetensors.hpp"
#include "session_body.hpp"

namespace gift {
namespace {

using Json = nlohmann::json;
constexpr int state_version = 1;

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

/// FP32 values little-endian. (All machines that run libgift are; the format says so all the same.)
std::vector<std::byte> to_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof bits);
    put_u32(bytes.data() + 4 * i, bits);
  }
  return bytes;
}

/// What belongs to a plan, a rank and a step; equal texts mean that a state fits. `hash` covers counters and residuals, in plan
/// order.
Json header_of(const Plan& plan, std::size_t rank, std::uint64_t step, const std::vector<TensorState>& states) {
  const Fingerprint print = plan.fingerprint(step);
  Json tensors = Json::object();
  std::vector<std::byte> hashes;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const TensorPlan& t = plan.tensors()[i];
    Json one = {{"committed", states[i].committed}};
    if (t.basis) one["basis"] = to_string(t.basis->hash);
    tensors[t.name] = one;
    std::vector<std::byte> number(8);
    put_u64(number.data(), states[i].committed);
    const std::vector<std::byte> sent = to_bytes(states[i].residual), owned = to_bytes(states[i].owner_residual);
    for (const ConstBytes part : {ConstBytes(number), ConstBytes(sent), ConstBytes(owned)}) {
      const Hash128 hash = xxh3_128(part);
      for (const std::uint8_t byte : hash.bytes) hashes.push_back(static_cast<std::byte>(byte));
    }
  }
  return {{"kind", "session state"},
          {"version", state_version},
          {"world", plan.world()},
          {"rank", rank},
          {"step", step},
          {"seed", plan.recipe().seed},
          {"shapes", hex(print.shapes)},
          {"formats", hex(print.formats)},
          {"recipe", hex(print.recipe)},
          {"basis", hex(print.basis)},
          {"tensors", tensors},
          {"hash", to_string(xxh3_128(hashes))}};
}

Status bad(const std::string& what) { return {Code::bad_file, what}; }

/// What must be equal before anything else is worth looking at.
Status check_header(const Json& got, const Json& expected) {
  const struct {
    const char* key;
    const char* what;
  } fields[] = {{"kind", "kind of file"},
                {"version", "version"},
                {"world", "number of ranks"},
                {"rank", "rank"},
                {"shapes", "hash of names, shapes and dtypes"},
                {"formats", "hash of formats and geometries"},
                {"recipe", "hash of the recipe"},
                {"seed", "seed"},
                {"basis", "basis hash"}};
  for (const auto& field : fields) {
    const auto found = got.find(field.key);
    if (found == got.end()) return bad(std::string("state has no '") + field.key + "'");
    if (*found == expected.at(field.key)) continue;
    return {Code::mismatch,
            std::string(field.what) + " is " + found->dump() + ", this session has " + expected.at(field.key).dump()};
  }
  if (!got.contains("step") || !got.at("step").is_number_unsigned()) return bad("'step' is missing or no number");
  if (!got.contains("tensors") || !got.at("tensors").is_object()) return bad("'tensors' is missing or no object");
  return {};
}

Status read_residual(const SafetensorsFile& file, const std::string& name, std::int64_t cols, std::vector<float>& into) {
  if (into.empty()) return {};
  const TensorInfo* info = file.find(name);
  if (!info) return bad("no tensor '" + name + "'");
  const std::int64_t rows = static_cast<std::int64_t>(into.size()) / cols;
  if (info->dtype != "F32" || info->shape != std::vector<std::int64_t>{rows, cols})
    return bad("tensor '" + name + "' is not F32 [" + std::to_string(rows) + ", " + std::to_string(cols) + "]");
  Result<std::vector<float>> values = file.read_f32(name);
  if (!values.ok()) return values.status();
  if (values->size() != into.size()) return bad("tensor '" + name + "' has another size");
  into = std::move(values).value();
  return {};
}

/// Everything from the file into `states` (which have the plan's sizes) and `step`.
Status read_state(const std::string& path, const Plan& plan, std::size_t rank, std::vector<TensorState>& states,
                  std::uint64_t& step) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  const auto text = file->metadata().find("gift.state");
  if (text == file->metadata().end()) return bad(path + ": no state of a session (no 'gift.state' in the metadata)");
  const Json got = Json::parse(text->second, nullptr, false);
  if (!got.is_object()) return bad(path + ": 'gift.state' is no JSON object");
  if (Status s = check_header(got, header_of(plan, rank, 0, states)); !s.ok()) return s.at(path);
  step = got.at("step").get<std::uint64_t>();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const TensorPlan& t = plan.tensors()[i];
    const auto one = got.at("tensors").find(t.name);
    if (one == got.at("tensors").end() || !one->is_object() || !one->contains("committed") ||
        !one->at("committed").is_number_unsigned())
      return bad(path + ": no counter for tensor '" + t.name + "'");
    states[i].committed = one->at("committed").get<std::uint64_t>();
    if (Status s = read_residual(file.value(), t.name + ":residual", t.cols, states[i].residual); !s.ok()) return s.at(path);
    if (Status s = read_residual(file.value(), t.name + ":owner_residual", t.cols, states[i].owner_residual); !s.ok())
      return s.at(path);
  }
  if (!(got.value("hash", Json()) == header_of(plan, rank, step, states).at("hash")))
    return bad(path + ": the residuals do not have the hash that the file says");
  return {};
}

}  // namespace

Status Session::save(const std::string& path) const {
  const Body& b = *body_;
  if (!b.closed.ok()) return b.closed;
  if (b.pending) return {Code::invalid_argument, "save called between reduce and wait"};
  try {
    std::vector<TensorOut> out;
    const auto add = [&out](const std::string& name, const std::vector<float>& values, std::int64_t cols) {
      if (values.empty()) return;
      out.push_back({name, "F32", {static_cast<std::int64_t>(values.size()) / cols, cols}, to_bytes(values)});
    };
    for (std::size_t i = 0; i < b.states.size(); ++i) {
      const TensorPlan& t = b.plan.tensors()[i];
      add(t.name + ":residual", b.states[i].residual, t.cols);
      add(t.name + ":owner_residual", b.states[i].owner_residual, t.cols);
    }
    return write_safetensors(
        path, std::move(out),
        {{"gift.state", header_of(b.plan, b.rank(), b.step, b.states).dump(-1, ' ', false, Json::error_handler_t::replace)}});
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, path + ": no memory to save the state"};
  }
}

Status Session::load(const std::string& path) {
  Body& b = *body_;
  if (!b.closed.ok()) return b.closed;
  if (b.pending) return b.close({Code::invalid_argument, "load called before wait"});
  try {
    std::vector<TensorState> fresh = b.states;
    std::uint64_t step = 0;
    const Status mine = read_state(path, b.plan, b.rank(), fresh, step);
    if (Status s = agree(b.transport, mine); !s.ok()) return s;
    if (Status s = compare_plans(b.transport, b.plan, step); !s.ok()) return s;  // files of one save, not of two
    b.states = std::move(fresh);
    b.step = step;
    return {};
  } catch (const std::bad_alloc&) {
    return b.close({Code::out_of_memory, "no memory to load a state"});
  }
}

}  // namespace gift
