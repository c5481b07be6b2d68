// Codec: checks what a caller passes, then hands it to a backend. Nothing behind this file has to ask whether a pointer is there.
#include "gift/codec.hpp"

#include <new>
#include <stdexcept>
#include <string>

#include "backend.hpp"

namespace gift {

struct Codec::Body {
  std::string name;
  std::shared_ptr<const Backend> backend;
};

namespace {

Status bad(const TensorPlan* tensor, const std::string& verb, const std::string& what) {
  const std::string where = tensor != nullptr ? "tensor '" + tensor->name + "': " : "";
  return Status(Code::invalid_argument, where + verb + ": " + what);
}

Status check_tensor(const TensorPlan* t, const char* verb) {
  if (t == nullptr) return bad(t, verb, "no tensor");
  const auto world = static_cast<std::size_t>(t->world < 0 ? 0 : t->world);
  if (world == 0 || t->leg1.size() != world || t->leg2.size() != world) {
    return bad(t, verb,
               "the plan has " + std::to_string(t->leg1.size()) + " and " + std::to_string(t->leg2.size()) + " layouts for " +
                   std::to_string(t->world) + " ranks");
  }
  return Status();
}

Status check_shard(const TensorPlan& t, int shard, const char* verb) {
  if (shard >= 0 && shard < t.world) return Status();
  return bad(&t, verb, "shard " + std::to_string(shard) + ", expected 0 to " + std::to_string(t.world - 1));
}

/// `bytes_of(k)`: the size of payload k.
template <class Payloads, class BytesOf>
Status check_payloads(const TensorPlan& t, const Payloads& payloads, const BytesOf& bytes_of, const char* verb) {
  if (payloads.size() != static_cast<std::size_t>(t.world)) {
    return bad(&t, verb, std::to_string(payloads.size()) + " payloads, expected one a rank: " + std::to_string(t.world));
  }
  for (std::size_t k = 0; k < payloads.size(); ++k) {
    if (payloads[k] == nullptr && bytes_of(k) > 0) return bad(&t, verb, "payload " + std::to_string(k) + " is null");
  }
  return Status();
}

Status need(const TensorPlan& t, bool present, const char* verb, const char* what) {
  return present ? Status() : bad(&t, verb, std::string(what) + " is null");
}

/// Residuals come exactly with error feedback.
Status check_feedback(const TensorPlan& t, bool given, const char* verb, const char* what) {
  if (given == t.error_feedback || (t.elements() == 0 && !given)) return Status();
  return bad(
      &t, verb,
      std::string(what) + (given ? " given, but the plan has no error feedback" : " missing: the plan has error feedback"));
}

bool deflates_left(const TensorPlan& t) { return t.deflates() && has_left(t.geometry.side); }

Status first_error(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return Status();
}

/// Runs a verb; memory that is not there is an error like others.
template <class Verb>
Status guarded(const TensorPlan& t, const char* verb, const Verb& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "tensor '" + t.name + "': " + verb + ": no memory for " + std::to_string(t.rows) + " x " +
                                           std::to_string(t.cols) + " elements");
  } catch (const std::length_error&) {
    return Status(Code::out_of_memory, "tensor '" + t.name + "': " + verb + ": more elements than memory can hold");
  }
}

}  // namespace

Codec::Codec() : body_(std::make_unique<Body>()) {}
Codec::Codec(Codec&&) noexcept = default;
Codec& Codec::operator=(Codec&&) noexcept = default;
Codec::~Codec() = default;

Result<Codec> Codec::open(const std::string& backend) {
  try {
    Result<std::shared_ptr<const Backend>> opened = open_backend(backend);
    if (!opened.ok()) return opened.status();
    Codec codec;
    codec.body_->name = backend;
    codec.body_->backend = *opened;
    return codec;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory to open the backend '" + backend + "'");
  }
}

const std::string& Codec::backend() const noexcept { return body_->name; }

Status Codec::encode(const EncodeArgs& a) const {
  Status status = check_tensor(a.tensor, "encode");
  if (!status.ok()) return status;
  const TensorPlan& t = *a.tensor;
  status = first_error(
      {check_payloads(
           t, a.payloads, [&](std::size_t k) { return t.leg1[k].total_bytes; }, "encode"),
       need(t, a.input != nullptr || t.elements() == 0, "encode", "the input"),
       check_feedback(t, a.residual != nullptr, "encode", "the residual"),
       need(t, a.residual == nullptr || a.row_written != nullptr, "encode", "row_written, which goes with a residual,")});
  if (!status.ok()) return status;
  return guarded(t, "encode", [&] { return body_->backend->encode(a); });
}

Status Codec::reduce(const ReduceArgs& a) const {
  Status status = check_tensor(a.tensor, "reduce");
  if (status.ok()) status = check_shard(*a.tensor, a.shard, "reduce");
  if (!status.ok()) return status;
  const TensorPlan& t = *a.tensor;
  const PayloadLayout& in = t.leg1[static_cast<std::size_t>(a.shard)];
  const PayloadLayout& out = t.leg2[static_cast<std::size_t>(a.shard)];
  const bool cells = (in.row_end - in.row_begin) * t.cols > 0;
  const bool loss = t.error_feedback && deflates_left(t) && in.col_end > in.col_begin;
  status = first_error(
      {check_payloads(
           t, a.payloads, [&](std::size_t) { return in.total_bytes; }, "reduce"),
       need(t, a.payload != nullptr || out.total_bytes == 0, "reduce", "the payload to write"),
       need(t, a.quantised != nullptr || !cells, "reduce", "quantised"),
       need(t, a.left_loss != nullptr || !loss, "reduce", "left_loss, which left deflation with error feedback fills,"),
       cells ? check_feedback(t, a.owner_residual != nullptr, "reduce", "the owner's residual") : Status()});
  if (!status.ok()) return status;
  return guarded(t, "reduce", [&] { return body_->backend->reduce(a); });
}

Status Codec::decode(const DecodeArgs& a) const {
  Status status = check_tensor(a.tensor, "decode");
  if (!status.ok()) return status;
  const TensorPlan& t = *a.tensor;
  if (a.leg != 1 && a.leg != 2) return bad(&t, "decode", "leg " + std::to_string(a.leg) + ", expected 1 or 2");
  const std::vector<PayloadLayout>& layouts = a.leg == 1 ? t.leg1 : t.leg2;
  if (!a.non_finite) {
    status = check_payloads(
        t, a.payloads, [&](std::size_t k) { return layouts[k].total_bytes; }, "decode");
    if (!status.ok()) return status;
  }
  status = need(t, a.output != nullptr || t.elements() == 0, "decode", "the output");
  if (!status.ok()) return status;
  return guarded(t, "decode", [&] { return body_->backend->decode(a); });
}

Status Codec::commit(const CommitArgs& a) const {
  Status status = check_tensor(a.tensor, "commit");
  if (status.ok()) status = check_shard(*a.tensor, a.shard, "commit");
  if (!status.ok()) return status;
  const TensorPlan& t = *a.tensor;
  if (!t.error_feedback) return Status();  // nothing is kept
  const PayloadLayout& own = t.leg2[static_cast<std::size_t>(a.shard)];
  const bool cells = (own.row_end - own.row_begin) * t.cols > 0;
  const bool loss = deflates_left(t) && own.col_end > own.col_begin;
  status = first_error({check_payloads(
                            t, a.leg2, [&](std::size_t k) { return t.leg2[k].total_bytes; }, "commit"),
                        check_feedback(t, a.residual != nullptr, "commit", "the residual"),
                        need(t, a.owner_residual != nullptr || !cells, "commit", "the owner's residual"),
                        need(t, a.quantised != nullptr || !cells, "commit", "quantised"),
                        need(t, a.left_loss != nullptr || !loss, "commit", "left_loss")});
  if (!status.ok()) return status;
  return guarded(t, "commit", [&] { return body_->backend->commit(a); });
}

Status Codec::rollback(const RollbackArgs& a) const {
  Status status = check_tensor(a.tensor, "rollback");
  if (!status.ok()) return status;
  const TensorPlan& t = *a.tensor;
  if (!t.error_feedback) return Status();  // nothing was written
  status = first_error({check_payloads(
                            t, a.leg1, [&](std::size_t k) { return t.leg1[k].total_bytes; }, "rollback"),
                        need(t, a.input != nullptr || t.elements() == 0, "rollback", "the input"),
                        check_feedback(t, a.residual != nullptr, "rollback", "the residual"),
                        need(t, a.row_written != nullptr || t.elements() == 0, "rollback", "row_written")});
  if (!status.ok()) return status;
  return guarded(t, "rollback", [&] { return body_->backend->rollback(a); });
}

Status Codec::round_trip(const TensorPlan& t, const void* input, float* residual, void* output, const RoundingKey& key,
                         EncodeStats* stats, std::int64_t* payload_bytes) const {
  Status status = check_tensor(&t, "round_trip");
  if (!status.ok()) return status;
  return guarded(t, "round_trip", [&] {
    std::vector<std::vector<std::byte>> storage;
    std::vector<std::byte*> out;
    std::vector<const std::byte*> in;
    std::int64_t bytes = 0;
    for (const PayloadLayout& layout : t.leg1) {
      storage.emplace_back(static_cast<std::size_t>(layout.total_bytes));
      out.push_back(storage.back().data());
      in.push_back(storage.back().data());
      bytes += layout.total_bytes;
    }
    std::vector<std::uint8_t> written(static_cast<std::size_t>(t.rows));
    EncodeStats own;
    EncodeArgs encode_args;
    encode_args.tensor = &t;
    encode_args.input = input;
    encode_args.residual = residual;
    encode_args.row_written = residual != nullptr ? written.data() : nullptr;
    encode_args.payloads = out;
    encode_args.key = key;
    encode_args.stats = &own;
    Status step = encode(encode_args);
    if (!step.ok()) return step;
    if (stats != nullptr) *stats = own;
    if (payload_bytes != nullptr) *payload_bytes = bytes;
    DecodeArgs decode_args;
    decode_args.tensor = &t;
    decode_args.leg = 1;
    decode_args.payloads = in;
    decode_args.non_finite = own.non_finite;
    decode_args.output = output;
    return decode(decode_args);
  });
}

const Backend& backend_of(const Codec& codec) { return *codec.body_->backend; }

}  // namespace gift
