// Encode by every rank, reduce by every owner, decode once.
#include "one_process.hpp"

#include <cmath>

namespace gift::cli {
namespace {

using Payload = std::vector<std::byte>;

std::vector<Payload> make_payloads(const std::vector<PayloadLayout>& layouts) {
  std::vector<Payload> payloads;
  for (const PayloadLayout& layout : layouts) payloads.emplace_back(static_cast<std::size_t>(layout.total_bytes));
  return payloads;
}

}  // namespace

Result<std::vector<float>> reduce_in_one_process(const Codec& codec, const TensorPlan& t, std::uint64_t seed,
                                                 const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<Payload>> sent;
  bool non_finite = false;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    sent.push_back(make_payloads(t.leg1));
    std::vector<std::byte*> out;
    for (Payload& p : sent.back()) out.push_back(p.data());
    std::vector<float> residual(t.error_feedback ? inputs[rank].size() : 0);
    std::vector<std::uint8_t> written(static_cast<std::size_t>(t.rows));
    EncodeStats stats;
    EncodeArgs args;
    args.tensor = &t;
    args.input = inputs[rank].data();
    args.residual = t.error_feedback ? residual.data() : nullptr;
    args.row_written = t.error_feedback ? written.data() : nullptr;
    args.payloads = out;
    args.key = {seed, t.id, static_cast<std::uint32_t>(rank), 0};
    args.stats = &stats;
    if (Status s = codec.encode(args); !s.ok()) return s;
    non_finite = non_finite || stats.non_finite;
  }
  std::vector<Payload> sums = make_payloads(t.leg2);
  std::vector<const std::byte*> shards;
  for (std::size_t owner = 0; owner < inputs.size(); ++owner) {
    const PayloadLayout& p = t.leg1[owner];
    std::vector<const std::byte*> in;
    for (const auto& packets : sent) in.push_back(packets[owner].data());
    const auto cells = static_cast<std::size_t>((p.row_end - p.row_begin) * t.cols);
    std::vector<float> quantised(cells), owner_residual(t.error_feedback ? cells : 0);
    std::vector<float> left_loss(
        t.error_feedback && t.deflates() ? static_cast<std::size_t>(t.rank_left() * (p.col_end - p.col_begin)) : 0);
    EncodeStats stats;
    ReduceArgs args;
    args.tensor = &t;
    args.shard = static_cast<int>(owner);
    args.payloads = in;
    args.owner_residual = owner_residual.empty() ? nullptr : owner_residual.data();
    args.quantised = quantised.data();
    args.left_loss = left_loss.empty() ? nullptr : left_loss.data();
    args.payload = sums[owner].data();
    args.key = {seed, t.id, 0, 0};
    args.stats = &stats;
    if (Status s = codec.reduce(args); !s.ok()) return s;
    non_finite = non_finite || stats.non_finite;
    shards.push_back(sums[owner].data());
  }
  std::vector<float> result(inputs.empty() ? 0 : inputs[0].size());
  DecodeArgs args;
  args.tensor = &t;
  args.payloads = shards;
  args.non_finite = non_finite;
  args.output = result.data();
  if (Status s = codec.decode(args); !s.ok()) return s;
  return result;
}

}  // namespace gift::cli
