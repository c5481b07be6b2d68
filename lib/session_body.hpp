// The inside of a Session: what it holds, and the steps that session.cpp strings together. Private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gift/codec.hpp"
#include "gift/session.hpp"
#include "packet.hpp"

namespace gift {

/// What a session keeps of one tensor from step to step.
struct TensorState {
  std::vector<float> residual;        ///< rows x cols; empty without error feedback, as are the next three
  std::vector<float> owner_residual;  ///< rows x cols of this rank's shard
  std::vector<float> quantised;       ///< of this rank's shard: what the last reduce quantised, for `commit`
  std::vector<float> left_loss;       ///< [rank_left, columns of this rank's shard]
  std::vector<std::uint8_t> row_written;
  std::uint64_t committed = 0;  ///< reductions that took effect: the step of stochastic rounding
};

/// Packets of one call, tensor after tensor, each a header and its payload; one region for each peer. Allocated for all tensors.
struct PacketBuffers {
  std::vector<std::vector<std::byte>> leg1_out;  ///< by destination
  std::vector<std::vector<std::byte>> leg1_in;   ///< by sender
  std::vector<std::byte> leg2_out;
  std::vector<std::vector<std::byte>> leg2_in;  ///< by owner
  std::vector<float> quantised;                 ///< for tensors that keep nothing: the largest shard
};

/// One tensor of the call at hand.
struct Item {
  std::size_t tensor = 0;  ///< index in the plan
  void* data = nullptr;
  bool encoded = false;  ///< the residual was written: an error has to put it back
  WireError error;       ///< this rank's own error about it
  EncodeStats sent;
  bool non_finite = false;
  std::int32_t non_finite_rank = -1;
  bool non_zero = false;  ///< some rank had something to send
};

struct Session::Body {
  Body(Plan plan_in, Transport& transport_in, Codec codec_in, std::uint64_t first_step)
      : plan(std::move(plan_in)), transport(transport_in), codec(std::move(codec_in)), step(first_step) {}

  Plan plan;
  Transport& transport;
  Codec codec;
  std::uint64_t step;
  std::vector<TensorState> states;  ///< as Plan::tensors()
  PacketBuffers packets;
  Status closed;  ///< why the session cannot be used any more

  // The call at hand.
  bool pending = false;  ///< reduce has succeeded, wait is due
  std::vector<Item> items;
  bool refused = false;                           ///< this rank's arguments are wrong: it sends errors instead of packets
  WireError stray;                                ///< an argument error that is about no tensor of the plan
  std::vector<std::vector<std::size_t>> leg1_at;  ///< [shard][item]: offset of the packet in its region
  std::vector<std::vector<std::size_t>> leg2_at;
  std::vector<std::size_t> leg1_bytes, leg2_bytes;  ///< by shard: what travels of a region
  ReduceReport report;
  std::uint64_t sent_before = 0;

  std::size_t rank() const noexcept { return static_cast<std::size_t>(transport.rank()); }
  std::size_t world() const noexcept { return static_cast<std::size_t>(plan.world()); }
  const TensorPlan& tensor(const Item& item) const noexcept { return plan.tensors()[item.tensor]; }
  TensorState& state(const Item& item) noexcept { return states[item.tensor]; }
  RoundingKey key(const Item& item, std::uint32_t sender) const noexcept;

  // session_buffers.cpp: memory, and where packets lie in it.
  void allocate();
  void place_packets();
  std::span<std::byte> leg1_packet_out(std::size_t shard, std::size_t item) noexcept;
  ConstBytes leg1_packet_in(std::size_t sender, std::size_t item) const noexcept;
  std::span<std::byte> leg2_packet_out(std::size_t item) noexcept;
  ConstBytes leg2_packet_in(std::size_t owner, std::size_t item) const noexcept;
  std::vector<const std::byte*> leg1_payloads_out(std::size_t item) const;
  std::vector<const std::byte*> leg1_payloads_in(std::size_t item) const;
  std::vector<const std::byte*> leg2_payloads(std::size_t item) const;

  // session_call.cpp: which tensors, and do all ranks mean the same?
  void take_arguments(std::span<const TensorBuffer> buffers);
  Status compare_calls();

  // session.cpp: the pipeline.
  Status run(std::span<const TensorBuffer> buffers);
  void encode();
  Status exchange();
  void reduce();
  Status gather();
  Status verdict();
  Status complete();
  Status finish(std::size_t index);
  void roll_back();
  Status close(const Status& why);

  void seal(std::span<std::byte> packet, PacketHeader& header) const;
  WireError inspect_senders(std::size_t index, PacketHeader& out, bool& blocked) const;
  Status reduce_shard(std::size_t index, EncodeStats& stats);
};

/// Little-endian integers in fixed-size records.
void put_u32(std::byte* out, std::uint32_t value) noexcept;
void put_u64(std::byte* out, std::uint64_t value) noexcept;
std::uint32_t get_u32(const std::byte* in) noexcept;
std::uint64_t get_u64(const std::byte* in) noexcept;

/// All-gathers one record of equal size from every rank.
Result<std::vector<std::byte>> gather_records(Transport& transport, ConstBytes mine);

/// session_open.cpp. Collective: all ranks hold an equal plan and step, or all return the same error, which names the first rank
/// that differs from rank 0, what differs (the tensor if it is one tensor), and both values.
Status compare_plans(Transport& transport, const Plan& plan, std::uint64_t step);

}  // namespace gift
