// One gradient's way, top to bottom: encode -> exchange -> reduce -> gather -> verdict, then decode and commit in wait().
//
// Every rank sends every packet whatever happens to it: a rank with an error sends headers that carry it. What an owner finds
// wrong in leg 1 travels in its leg-2 headers, which all ranks read, so all come to the same verdict without another message.
#include "gift/session.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>

#include "session_body.hpp"

namespace gift {
namespace {

constexpr auto header_bytes = static_cast<std::size_t>(packet_header_bytes);

/// Adds the seconds it lives to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_;
};

/// Zeros of either sign only.
bool all_zero(const void* data, std::int64_t elements, Dtype dtype) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const auto width = static_cast<std::size_t>(dtype_bytes(dtype));
  for (std::int64_t i = 0; i < elements; ++i, bytes += width) {
    unsigned seen = bytes[width - 1] & 0x7FU;  // little-endian: the sign is the top bit of the last byte
    for (std::size_t b = 0; b + 1 < width; ++b) seen |= bytes[b];
    if (seen) return false;
  }
  return true;
}

}  // namespace

// ---- What a user calls ----

Session::Session() = default;
Session::~Session() = default;
const Plan& Session::plan() const noexcept { return body_->plan; }
std::uint64_t Session::step() const noexcept { return body_->step; }

Result<std::unique_ptr<Session>> Session::open(Plan plan, Transport& transport, SessionOptions options) {
  // Each rank first looks at its own affairs, then all hear about all.
  Status mine;
  std::unique_ptr<Session> session;
  try {
    Result<Codec> codec = Codec::open(options.backend);
    if (plan.world() != transport.size())
      mine = {Code::invalid_argument, "the plan is for " + std::to_string(plan.world()) + " ranks, the transport has " +
                                          std::to_string(transport.size())};
    else if (!codec.ok())
      mine = codec.status();
    else {
      session.reset(new Session());
      session->body_ = std::make_unique<Body>(plan, transport, std::move(codec).value(), options.first_step);
      session->body_->allocate();
    }
  } catch (const std::bad_alloc&) {
    mine = {Code::out_of_memory, "no memory for residuals and packets of this plan"};
  }
  if (Status s = agree(transport, mine); !s.ok()) return s;
  if (Status s = compare_plans(transport, plan, options.first_step); !s.ok()) return s;
  return session;
}

Status Session::reduce(std::span<const TensorBuffer> buffers) {
  Body& b = *body_;
  if (!b.closed.ok()) return b.closed;
  if (b.pending) return b.close({Code::invalid_argument, "reduce called before wait"});
  try {
    const Status status = b.run(buffers);
    b.pending = status.ok();
    return status;
  } catch (const std::bad_alloc&) {
    return b.close({Code::out_of_memory, "no memory in reduce"});
  }
}

Result<ReduceReport> Session::wait() {
  Body& b = *body_;
  if (!b.closed.ok()) return b.closed;
  if (!b.pending) return Status(Code::invalid_argument, "wait without a reduce that succeeded");
  b.pending = false;
  try {
    if (Status s = b.complete(); !s.ok()) return b.close(s);
    return b.report;
  } catch (const std::bad_alloc&) {
    return b.close({Code::out_of_memory, "no memory in wait"});
  }
}

std::vector<float> Session::residual(std::int64_t tensor) const {
  if (tensor < 0 || tensor >= static_cast<std::int64_t>(body_->states.size())) return {};
  return body_->states[static_cast<std::size_t>(tensor)].residual;
}

std::vector<float> Session::owner_residual(std::int64_t tensor) const {
  if (tensor < 0 || tensor >= static_cast<std::int64_t>(body_->states.size())) return {};
  return body_->states[static_cast<std::size_t>(tensor)].owner_residual;
}

// ---- The pipeline ----

Status Session::Body::run(std::span<const TensorBuffer> buffers) {
  report = {};
  report.step = step;
  sent_before = transport.bytes_sent();
  take_arguments(buffers);
  if (buffers.size() != plan.tensors().size())
    if (Status s = compare_calls(); !s.ok()) return s;
  place_packets();
  encode();
  Status status = exchange();
  if (status.ok()) {
    reduce();
    status = gather();
  }
  if (status.ok()) status = verdict();
  if (!status.ok()) roll_back();
  return status;
}

/// 1. Each tensor to one packet for each owner; residuals take up what quantising loses.
void Session::Body::encode() {
  const Stopwatch watch(report.encode_s);
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    const TensorPlan& t = tensor(item);
    TensorState& kept = state(item);
    std::vector<std::byte*> payloads;
    for (std::size_t k = 0; k < world(); ++k) payloads.push_back(leg1_packet_out(k, i).data() + header_bytes);
    if (!refused) {
      EncodeArgs args;
      args.tensor = &t;
      args.input = item.data;
      args.residual = kept.residual.empty() ? nullptr : kept.residual.data();
      args.row_written = kept.residual.empty() ? nullptr : kept.row_written.data();
      args.payloads = payloads;
      args.key = key(item, static_cast<std::uint32_t>(rank()));
      args.stats = &item.sent;
      const Status status = codec.encode(args);
      item.encoded = status.ok();
      if (!status.ok()) item.error = {status.code(), Field::none, static_cast<std::uint32_t>(rank()), 0, 0};
    }
    for (std::size_t k = 0; k < world(); ++k) {
      PacketHeader header = expected_header(t, 1, static_cast<int>(rank()), static_cast<int>(k), step);
      if (item.sent.non_finite) header.flags |= flag_non_finite;
      if (item.sent.energy > 0) header.flags |= flag_non_zero;
      if (refused || item.error.code != Code::ok) header.flags |= flag_error;
      header.error = item.error;
      seal(leg1_packet_out(k, i), header);
    }
  }
}

/// Checksum and header of a packet. One that carries an error carries zeros besides, and so does the sum of what is not finite.
/// (A sender's own packet stays as it is then: a rollback reads it.)
void Session::Body::seal(std::span<std::byte> packet, PacketHeader& header) const {
  const std::span<std::byte> payload = packet.subspan(header_bytes);
  const bool no_sum = header.leg == 2 && (header.flags & flag_non_finite);
  if ((header.flags & flag_error) || no_sum) std::fill(payload.begin(), payload.end(), std::byte{0});
  header.payload_hash = xxh3_64(payload);
  write_header(header, packet.data());
}

/// 2. Packets to their owners.
Status Session::Body::exchange() {
  const Stopwatch watch(report.exchange_s);
  std::vector<ConstBytes> send;
  std::vector<Bytes> recv;
  for (std::size_t k = 0; k < world(); ++k) {
    send.emplace_back(packets.leg1_out[k].data(), leg1_bytes[k]);
    recv.emplace_back(packets.leg1_in[k].data(), leg1_bytes[rank()]);
  }
  const Status status = transport.all_to_all(send, recv);
  return status.ok() ? status : close(status);
}

/// 3. Each owner adds its shard in rank order and encodes the sum, or says in its header why not.
void Session::Body::reduce() {
  const Stopwatch watch(report.reduce_s);
  for (std::size_t i = 0; i < items.size(); ++i) {
    PacketHeader header = expected_header(tensor(items[i]), 2, static_cast<int>(rank()), static_cast<int>(rank()), step);
    bool blocked = false;
    header.error = inspect_senders(i, header, blocked);
    if (header.error.code == Code::ok && !blocked && !(header.flags & flag_non_finite)) {
      EncodeStats stats;
      const Status status = reduce_shard(i, stats);
      if (stats.non_finite) header.flags |= flag_non_finite;
      if (!status.ok()) header.error = {status.code(), Field::none, static_cast<std::uint32_t>(rank()), 0, 0};
    }
    if (blocked || header.error.code != Code::ok) header.flags |= flag_error;
    seal(leg2_packet_out(i), header);
  }
}

Status Session::Body::reduce_shard(std::size_t index, EncodeStats& stats) {
  Item& item = items[index];
  TensorState& kept = state(item);
  const std::vector<const std::byte*> payloads = leg1_payloads_in(index);
  ReduceArgs args;
  args.tensor = &tensor(item);
  args.shard = static_cast<int>(rank());
  args.payloads = payloads;
  args.owner_residual = kept.owner_residual.empty() ? nullptr : kept.owner_residual.data();
  args.quantised = kept.owner_residual.empty() ? packets.quantised.data() : kept.quantised.data();
  args.left_loss = kept.left_loss.empty() ? nullptr : kept.left_loss.data();
  args.payload = leg2_packet_out(index).data() + header_bytes;
  args.key = key(item, 0);
  args.stats = &stats;
  return codec.reduce(args);
}

/// 4. Reduced shards to everyone.
Status Session::Body::gather() {
  const Stopwatch watch(report.gather_s);
  std::vector<Bytes> recv;
  for (std::size_t k = 0; k < world(); ++k) recv.emplace_back(packets.leg2_in[k].data(), leg2_bytes[k]);
  const Status status = transport.all_gather(ConstBytes(packets.leg2_out.data(), leg2_bytes[rank()]), recv);
  return status.ok() ? status : close(status);
}

/// 5. Into the caller's buffers; residuals are committed. Nothing was final before.
Status Session::Body::complete() {
  const Stopwatch watch(report.decode_s);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (Status s = finish(i); !s.ok()) return s;
  ++step;
  report.bytes_sent = transport.bytes_sent() - sent_before;
  return {};
}

Status Session::Body::finish(std::size_t index) {
  Item& item = items[index];
  const TensorPlan& t = tensor(item);
  TensorState& kept = state(item);
  float* residual = kept.residual.empty() ? nullptr : kept.residual.data();
  const std::vector<const std::byte*> own = leg1_payloads_out(index), shards = leg2_payloads(index);
  TensorReport told;
  told.tensor = static_cast<std::int64_t>(item.tensor);
  told.non_finite = item.non_finite;
  told.non_finite_rank = item.non_finite_rank;
  told.saturated = item.sent.saturated;
  if (item.sent.energy > 0) told.local_rel_l2 = std::sqrt(item.sent.error_energy / item.sent.energy);

  if (item.non_finite && residual)  // before the gradient is overwritten: the rollback needs it
    if (Status s = codec.rollback({&t, item.data, kept.row_written.data(), own, residual}); !s.ok()) return s;
  DecodeArgs decode;
  decode.tensor = &t;
  decode.payloads = shards;
  decode.non_finite = item.non_finite;
  decode.output = item.data;
  decode.overflowed = &told.overflowed;
  if (Status s = codec.decode(decode); !s.ok()) return s;
  if (!item.non_finite) {
    if (residual) {
      CommitArgs commit;
      commit.tensor = &t;
      commit.shard = static_cast<int>(rank());
      commit.leg2 = shards;
      commit.quantised = kept.quantised.data();
      commit.left_loss = kept.left_loss.empty() ? nullptr : kept.left_loss.data();
      commit.owner_residual = kept.owner_residual.empty() ? nullptr : kept.owner_residual.data();
      commit.residual = residual;
      if (Status s = codec.commit(commit); !s.ok()) return s;
    }
    ++kept.committed;
    told.vanished = item.non_zero && all_zero(item.data, t.elements(), t.dtype);
  }
  report.tensors.push_back(told);
  return {};
}

/// After an error: residuals as they were before encode. Buffers were not touched.
void Session::Body::roll_back() {
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    TensorState& kept = state(item);
    if (!item.encoded || kept.residual.empty()) continue;
    const std::vector<const std::byte*> own = leg1_payloads_out(i);
    const Status status = codec.rollback({&tensor(item), item.data, kept.row_written.data(), own, kept.residual.data()});
    if (!status.ok()) (void)close(status);
  }
}

/// This rank cannot go on, or the transport cannot: every rank hears of it, and every later call says why.
Status Session::Body::close(const Status& why) {
  if (closed.ok()) closed = why;
  transport.abort(closed);
  return closed;
}

RoundingKey Session::Body::key(const Item& item, std::uint32_t sender) const noexcept {
  return {plan.recipe().seed, tensor(item).id, sender, static_cast<std::uint32_t>(states[item.tensor].committed)};
}

}  // namespace gift
