// One tensor through every verb on both backends, each verb fed with the same bytes, so that the first wrong verb is the one that
// is named. Outputs are poisoned differently on the two sides: a byte that is never written is a difference.
#include <bit>
#include <cstring>

#include "verify_internal.hpp"

namespace gift::verification {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

constexpr std::byte subject_poison{0xa5}, peer_poison{0x5a};
constexpr float subject_poison_number = 1.5e33f, peer_poison_number = -2.5e33f;

std::byte poison(bool is_subject) { return is_subject ? subject_poison : peer_poison; }
float poison_number(bool is_subject) { return is_subject ? subject_poison_number : peer_poison_number; }

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Leg1 {
  std::vector<Bytes> payloads;
  Floats residual;
  std::vector<std::uint8_t> written;
  EncodeStats stats;
};

struct Leg2 {
  Bytes payload;
  Floats quantised, left_loss;
  EncodeStats stats;
};

std::vector<const std::byte*> pointers(const std::vector<Bytes>& payloads) {
  std::vector<const std::byte*> all;
  for (const Bytes& p : payloads) all.push_back(p.data());
  return all;
}

class VerbCheck {
 public:
  VerbCheck(Context& context, std::string label, const Case& c) : context_(context), label_(std::move(label)), case_(c) {}

  Status run() {
    if (Status s = prepare(); !s.ok()) return s;
    std::vector<Leg1> senders;
    for (int rank = 0; rank < plan_.world; ++rank) {
      senders.emplace_back();
      if (Status s = check_encode(rank, senders.back()); !s.ok()) return s;
    }
    std::vector<Leg2> owners(size(plan_.world));
    for (int shard = 0; shard < plan_.world; ++shard) {
      if (Status s = check_reduce(senders, shard, owners[size(shard)]); !s.ok()) return s;
    }
    std::vector<Bytes> gathered;
    for (const Leg2& owner : owners) gathered.push_back(owner.payload);
    if (Status s = check_decode(1, senders[0].payloads); !s.ok()) return s;
    if (Status s = check_decode(2, gathered); !s.ok()) return s;
    if (!plan_.error_feedback) return Status();
    for (int shard = 0; shard < plan_.world; ++shard) {
      if (Status s = check_commit(senders[size(shard)], owners[size(shard)], gathered, shard); !s.ok()) return s;
    }
    return check_rollback(senders[0]);
  }

 private:
  VerifyRow& row(const char* verb) { return context_.row(label_ + " " + verb, context_.peer_name); }
  std::string where() const {
    return to_string(case_.format) + " " + std::to_string(plan_.rows) + " x " + std::to_string(plan_.cols) + ", " +
           std::to_string(plan_.world) + " ranks, " + dtype_name(case_.dtype);
  }

  Status prepare() {
    Result<LayerBasisPtr> basis = test_basis(case_.geometry, case_.rows, case_.cols, context_.options.seed);
    if (!basis.ok()) return basis.status();
    Result<TensorPlan> plan = plan_tensor({"verify", {case_.rows, case_.cols}, case_.dtype}, case_.format, case_.geometry, *basis,
                                          case_.feedback, case_.op, case_.world);
    if (!plan.ok()) return plan.status().at(label_ + ", " + to_string(case_.format));
    plan_ = *plan;
    for (int rank = 0; rank < plan_.world; ++rank) {
      const auto seed = context_.options.seed + 17 * static_cast<std::uint64_t>(rank);
      const Floats x =
          filled(plan_.rows, plan_.cols, rank == 0 || case_.fill != Fill::non_finite ? case_.fill : Fill::moderate, seed);
      inputs_.emplace_back(x.size() * size(dtype_bytes(case_.dtype)));
      if (Status s = narrow(x, inputs_.back()); !s.ok()) return s;
    }
    return Status();
  }

  /// The caller's buffer in the caller's type.
  Status narrow(const Floats& x, Bytes& out) const {
    if (x.empty()) return Status();
    if (case_.dtype == Dtype::f32) {
      std::memcpy(out.data(), x.data(), out.size());
      return Status();
    }
    std::vector<std::uint16_t> codes(x.size());
    const Element element = case_.dtype == Dtype::bf16 ? Element::bf16 : Element::f16;
    if (Status s = context_.peer.convert(element, Rounding::rne, {}, 0, x, codes); !s.ok()) return s;
    std::memcpy(out.data(), codes.data(), out.size());
    return Status();
  }

  RoundingKey key(int sender) const {
    return {.seed = context_.options.seed, .tensor_id = plan_.id, .sender = static_cast<std::uint32_t>(sender), .step = 3};
  }

  Floats residual_before(int rank) const {
    if (!plan_.error_feedback) return {};
    Floats r = filled(plan_.rows, plan_.cols, Fill::moderate, context_.options.seed + 1000 + static_cast<std::uint64_t>(rank));
    for (float& v : r) v *= 0.125f;
    return r;
  }

  Status encode(const Backend& backend, int rank, Leg1& out) const {
    const bool is_subject = &backend == &context_.subject;
    std::vector<std::byte*> targets;
    for (const PayloadLayout& layout : plan_.leg1) out.payloads.emplace_back(size(layout.total_bytes), poison(is_subject));
    for (Bytes& payload : out.payloads) targets.push_back(payload.data());
    out.residual = residual_before(rank);
    if (plan_.error_feedback) out.written.assign(size(plan_.rows), is_subject ? 0xa5 : 0x5a);
    EncodeArgs args;
    args.tensor = &plan_;
    args.input = inputs_[size(rank)].data();
    float nothing = 0;  // an empty matrix has a residual too: null would mean no error feedback
    args.residual = !plan_.error_feedback ? nullptr : out.residual.empty() ? &nothing : out.residual.data();
    args.row_written = plan_.error_feedback ? out.written.data() : nullptr;
    args.payloads = targets;
    args.key = key(rank);
    args.stats = &out.stats;
    return backend.encode(args);
  }

  void compare_stats(VerifyRow& r, const EncodeStats& got, const EncodeStats& expected) const {
    compare_counts(r, got.non_finite ? 1 : 0, expected.non_finite ? 1 : 0, where() + ", non-finite flag");
    compare_counts(r, got.saturated, expected.saturated, where() + ", saturated elements");
    compare_counts(r, got.top_codes, expected.top_codes, where() + ", largest codes");
    compare_counts(r, got.bottom_codes, expected.bottom_codes, where() + ", zero codes");
  }

  /// `expected` is what the later verbs go on with.
  Status check_encode(int rank, Leg1& expected) {
    Leg1 got;
    if (Status s = encode(context_.subject, rank, got); !s.ok()) return s;
    if (Status s = encode(context_.peer, rank, expected); !s.ok()) return s;
    VerifyRow& r = row("encode");
    const std::string at = where() + ", rank " + std::to_string(rank);
    for (std::size_t k = 0; k < got.payloads.size(); ++k) {
      compare_bytes(r, got.payloads[k], expected.payloads[k], at + ", payload " + std::to_string(k));
    }
    compare_bytes(r, std::as_bytes(std::span(got.written)), std::as_bytes(std::span(expected.written)), at + ", rows written");
    compare_floats(r, got.residual, expected.residual, at + ", residual");
    compare_stats(r, got.stats, expected.stats);
    return Status();
  }

  Status reduce(const Backend& backend, const std::vector<const std::byte*>& incoming, int shard, const Floats& owner_residual,
                Leg2& out) const {
    const bool is_subject = &backend == &context_.subject;
    const PayloadLayout& layout = plan_.leg2[size(shard)];
    const std::int64_t cells = (layout.row_end - layout.row_begin) * plan_.cols;
    out.payload.assign(size(layout.total_bytes), poison(is_subject));
    out.quantised.assign(size(cells), poison_number(is_subject));
    const bool has_loss = plan_.error_feedback && plan_.deflates() && plan_.mixes_rows();
    if (has_loss) out.left_loss.assign(size(plan_.rank_left() * (layout.col_end - layout.col_begin)), poison_number(is_subject));
    ReduceArgs args;
    args.tensor = &plan_;
    args.shard = shard;
    args.payloads = incoming;
    args.owner_residual = plan_.error_feedback ? owner_residual.data() : nullptr;
    args.quantised = out.quantised.data();
    args.left_loss = has_loss ? out.left_loss.data() : nullptr;
    args.payload = out.payload.data();
    args.key = key(0);
    args.stats = &out.stats;
    return backend.reduce(args);
  }

  Floats owner_residual(int shard) const {
    const PayloadLayout& layout = plan_.leg2[size(shard)];
    Floats r = filled(layout.row_end - layout.row_begin, plan_.cols, Fill::moderate, context_.options.seed + 2000);
    for (float& v : r) v *= 0.0625f;
    return r;
  }

  Status check_reduce(const std::vector<Leg1>& senders, int shard, Leg2& expected) {
    std::vector<const std::byte*> incoming;
    for (const Leg1& sender : senders) incoming.push_back(sender.payloads[size(shard)].data());
    const Floats residual = owner_residual(shard);
    Leg2 got;
    if (Status s = reduce(context_.subject, incoming, shard, residual, got); !s.ok()) return s;
    if (Status s = reduce(context_.peer, incoming, shard, residual, expected); !s.ok()) return s;
    VerifyRow& r = row("sum");
    const std::string at = where() + ", shard " + std::to_string(shard);
    compare_bytes(r, got.payload, expected.payload, at + ", payload");
    compare_floats(r, got.quantised, expected.quantised, at + ", what was quantised");
    compare_floats(r, got.left_loss, expected.left_loss, at + ", BF16 loss of S_L");
    compare_stats(r, got.stats, expected.stats);
    return Status();
  }

  Status decode(const Backend& backend, int leg, const std::vector<const std::byte*>& payloads, bool flagged, Bytes& out,
                std::uint64_t& overflowed) const {
    out.assign(inputs_[0].size(), poison(&backend == &context_.subject));
    DecodeArgs args;
    args.tensor = &plan_;
    args.leg = leg;
    args.payloads = payloads;
    args.non_finite = flagged;
    args.output = out.data();
    args.overflowed = &overflowed;
    return backend.decode(args);
  }

  void compare_outputs(VerifyRow& r, const Bytes& got, const Bytes& expected, const std::string& at) const {
    if (case_.dtype != Dtype::f32) return compare_bytes(r, got, expected, at);
    Floats a(got.size() / 4), b(expected.size() / 4);
    if (!a.empty()) std::memcpy(a.data(), got.data(), got.size());
    if (!b.empty()) std::memcpy(b.data(), expected.data(), expected.size());
    compare_floats(r, a, b, at);
  }

  Status check_decode(int leg, const std::vector<Bytes>& payloads) {
    for (const bool flagged : {false, true}) {
      Bytes got, expected;
      std::uint64_t got_overflowed = 0, expected_overflowed = 0;
      const auto in = pointers(payloads);
      if (Status s = decode(context_.subject, leg, in, flagged, got, got_overflowed); !s.ok()) return s;
      if (Status s = decode(context_.peer, leg, in, flagged, expected, expected_overflowed); !s.ok()) return s;
      VerifyRow& r = row("decode");
      compare_outputs(r, got, expected, where() + ", leg " + std::to_string(leg));
      compare_counts(r, got_overflowed, expected_overflowed, where() + ", overflows of the caller's type");
    }
    return Status();
  }

  Status check_commit(const Leg1& sender, const Leg2& owner, const std::vector<Bytes>& gathered, int shard) {
    const auto in = pointers(gathered);
    Floats residuals[2] = {sender.residual, sender.residual}, owners[2] = {owner_residual(shard), owner_residual(shard)};
    const Backend* backends[2] = {&context_.subject, &context_.peer};
    for (int k = 0; k < 2; ++k) {
      CommitArgs args;
      args.tensor = &plan_;
      args.shard = shard;
      args.leg2 = in;
      args.quantised = owner.quantised.data();
      args.left_loss = owner.left_loss.empty() ? nullptr : owner.left_loss.data();
      args.owner_residual = owners[k].data();
      args.residual = residuals[k].data();
      if (Status s = backends[k]->commit(args); !s.ok()) return s;
    }
    VerifyRow& r = row("commit");
    compare_floats(r, residuals[0], residuals[1], where() + ", residual of shard " + std::to_string(shard));
    compare_floats(r, owners[0], owners[1], where() + ", owner's residual of shard " + std::to_string(shard));
    return Status();
  }

  Status check_rollback(const Leg1& sender) {
    Floats residuals[2] = {sender.residual, sender.residual};
    const Backend* backends[2] = {&context_.subject, &context_.peer};
    const auto in = pointers(sender.payloads);
    for (int k = 0; k < 2; ++k) {
      RollbackArgs args;
      args.tensor = &plan_;
      args.input = inputs_[0].data();
      args.row_written = sender.written.data();
      args.leg1 = in;
      args.residual = residuals[k].data();
      if (Status s = backends[k]->rollback(args); !s.ok()) return s;
    }
    compare_floats(row("rollback"), residuals[0], residuals[1], where() + ", residual");
    return Status();
  }

  Context& context_;
  std::string label_;
  const Case& case_;
  TensorPlan plan_;
  std::vector<Bytes> inputs_;
};

}  // namespace

Status check_verbs(Context& context, const std::string& label, const Case& c) { return VerbCheck(context, label, c).run(); }

}  // namespace gift::verification
