// Codec: backends by name, and every refusal of arguments with its words.
#include "catch.hpp"
#include "gift/codec.hpp"

using namespace gift;

namespace {

bool has(const Status& status, const std::string& part) { return status.message().find(part) != std::string::npos; }

Codec open(const std::string& name) {
  Result<Codec> codec = Codec::open(name);
  INFO(codec.status().message());
  REQUIRE(codec.ok());
  return std::move(codec).value();
}

TensorPlan plan(bool feedback, std::int64_t rows = 4, int world = 2) {
  Result<TensorPlan> made =
      plan_tensor({"w", {rows, 32}, Dtype::f32}, *parse_format("e4m3"), GeometrySpec(), nullptr, feedback, ReduceOp::mean, world);
  REQUIRE(made.ok());
  return *made;
}

}  // namespace

TEST_CASE("backends open by name or say why not", "[codec]") {
  CHECK(open("cpu").backend() == "cpu");
  CHECK(open("ref").backend() == "ref");
  Result<Codec> nothing = Codec::open("fpga");
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.status().code() == Code::unavailable);
  CHECK(has(nothing.status(), "'fpga'"));
  CHECK_FALSE(Codec::open("").ok());
  CHECK_FALSE(Codec::open("CPU").ok());
  const std::vector<BackendInfo> list = backends();
  REQUIRE(list.size() == 3);
  CHECK((list[0].name == "cpu" && list[0].available && !list[0].detail.empty()));
  CHECK((list[1].name == "ref" && list[1].available));
  CHECK(list[2].name == "cuda");
  Result<Codec> cuda = Codec::open("cuda");
  CHECK(cuda.ok() == list[2].available);
  if (!cuda.ok()) {
    CHECK(cuda.status().code() == Code::unavailable);
    CHECK(has(cuda.status(), "CUDA"));
  }
}

TEST_CASE("encode names what is missing", "[codec]") {
  const Codec codec = open("cpu");
  const TensorPlan with = plan(true), without = plan(false);
  std::vector<float> x(128, 1.0f), residual(128);
  std::vector<std::uint8_t> written(4);
  std::vector<std::vector<std::byte>> storage(2, std::vector<std::byte>(4096));
  std::vector<std::byte*> payloads = {storage[0].data(), storage[1].data()};
  EncodeArgs args;
  CHECK(has(codec.encode(args), "no tensor"));
  args.tensor = &with;
  CHECK(has(codec.encode(args), "tensor 'w': encode: 0 payloads, expected one a rank: 2"));
  args.payloads = payloads;
  CHECK(has(codec.encode(args), "input is null"));
  args.input = x.data();
  CHECK(has(codec.encode(args), "residual missing"));
  args.residual = residual.data();
  CHECK(has(codec.encode(args), "row_written"));
  args.row_written = written.data();
  CHECK(codec.encode(args).ok());
  CHECK(written == std::vector<std::uint8_t>(4, 1));
  args.tensor = &without;
  CHECK(has(codec.encode(args), "no error feedback"));
  args.residual = nullptr;
  CHECK(codec.encode(args).ok());
  payloads[1] = nullptr;
  CHECK(has(codec.encode(args), "payload 1 is null"));
}

TEST_CASE("the other verbs name what is missing", "[codec]") {
  const Codec codec = open("cpu");
  const TensorPlan t = plan(true);
  const std::vector<std::byte> zeros(4096);
  std::vector<const std::byte*> payloads = {zeros.data(), zeros.data()};
  std::vector<float> owner(64), quantised(64), residual(128), out(128);
  std::vector<std::byte> written(4096);
  ReduceArgs reduce;
  reduce.tensor = &t;
  reduce.shard = 2;
  CHECK(has(codec.reduce(reduce), "shard 2, expected 0 to 1"));
  reduce.shard = -1;
  CHECK_FALSE(codec.reduce(reduce).ok());
  reduce.shard = 1;
  reduce.payloads = payloads;
  CHECK(has(codec.reduce(reduce), "payload to write"));
  reduce.payload = written.data();
  CHECK(has(codec.reduce(reduce), "quantised"));
  reduce.quantised = quantised.data();
  CHECK(has(codec.reduce(reduce), "owner's residual"));
  reduce.owner_residual = owner.data();
  CHECK(codec.reduce(reduce).ok());

  DecodeArgs decode;
  decode.tensor = &t;
  decode.leg = 3;
  CHECK(has(codec.decode(decode), "leg 3"));
  decode.leg = 2;
  CHECK(has(codec.decode(decode), "payloads"));
  decode.payloads = payloads;
  CHECK(has(codec.decode(decode), "output"));
  decode.output = out.data();
  CHECK(codec.decode(decode).ok());
  decode.payloads = {};
  decode.non_finite = true;  // nothing is read
  CHECK(codec.decode(decode).ok());
  CHECK(out[5] != out[5]);

  CommitArgs commit;
  commit.tensor = &t;
  commit.leg2 = payloads;
  CHECK(has(codec.commit(commit), "residual missing"));
  commit.residual = residual.data();
  CHECK(has(codec.commit(commit), "owner's residual"));
  commit.owner_residual = owner.data();
  CHECK(has(codec.commit(commit), "quantised"));
  commit.quantised = quantised.data();
  CHECK(codec.commit(commit).ok());

  RollbackArgs rollback;
  rollback.tensor = &t;
  rollback.leg1 = payloads;
  CHECK(has(codec.rollback(rollback), "input"));
  rollback.input = residual.data();
  rollback.residual = residual.data();
  CHECK(has(codec.rollback(rollback), "row_written"));
}

// A sanitizer's allocator ends the program where the system's says no.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GIFT_ALLOCATOR_ABORTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GIFT_ALLOCATOR_ABORTS 1
#endif
#endif

#ifndef GIFT_ALLOCATOR_ABORTS
TEST_CASE("a plan that memory cannot hold is an error, not a crash", "[codec]") {
  const Codec codec = open("cpu");
  const TensorPlan t = plan(false, std::int64_t{1} << 50, 1);
  std::byte unused{};
  float x = 0;
  std::byte* payload = &unused;
  EncodeArgs args;
  args.tensor = &t;
  args.payloads = std::span<std::byte* const>(&payload, 1);
  args.input = &x;
  const Status status = codec.encode(args);
  CHECK(status.code() == Code::out_of_memory);
  CHECK(has(status, "tensor 'w'"));
}
#endif

TEST_CASE("empty tensors pass through every verb", "[codec]") {
  const Codec codec = open("cpu");
  const TensorPlan t = plan(true, 0, 3);
  EncodeStats stats;
  std::int64_t bytes = -1;
  CHECK(codec.round_trip(t, nullptr, nullptr, nullptr, {}, &stats, &bytes).ok());
  CHECK(bytes == 0);
}
