// Damaged packets, lying headers, ranks that die, gradients that are not finite.
#include <cstring>
#include <limits>
#include <thread>

#include "interrupted.hpp"
#include "packet.hpp"

using namespace gift;
using namespace gift::tests;
using namespace std::chrono_literals;

namespace {

void flip(std::vector<std::byte>& bytes, std::size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8); }

}  // namespace
TEST_CASE("a packet that is damaged on its way to its owner is an error on all ranks, and the next reduce works",
          "[ranks][session]") {
  const World world = deflated();
  const auto damage = [&](const std::function<void(std::vector<std::byte>&)>& how, int from, int to) {
    return interrupt(world, 3, [&, from, to](int rank, CorruptingTransport& t, Session& s, std::vector<TensorBuffer>& buffers) {
      if (rank == from)
        t.before_all_to_all = [&, to](int k, std::vector<std::byte>& bytes) {
          if (k == to) how(bytes);
        };
      return reduce_once(s, buffers);
    });
  };
  Interrupted out = damage([](auto& bytes) { flip(bytes, 8 * 192 + 5); }, 1, 2);
  check_all(out.errors, "rank 1: mapped.fc: packet from this rank fails its checksum");
  check_all(out.afterwards, "");
  out = damage([](auto& bytes) { flip(bytes, 8 * 60); }, 2, 0);
  check_all(out.errors, "rank 2: mapped.fc: packet from this rank has a damaged header");
  check_all(out.afterwards, "");
  out = damage(
      [](auto& bytes) { std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), bytes.end(), std::byte{0}); }, 0,
      0);
  for (const std::string& text : out.errors) {
    CHECK(text == out.errors[0]);
    CHECK(text.rfind("rank 0: ", 0) == 0);
  }
  check_all(out.afterwards, "");
}

TEST_CASE("a header that is whole but says something else is a named mismatch on all ranks", "[ranks][session][mismatch]") {
  const World world = deflated();
  const auto rewrite = [&](int liar, const std::function<void(PacketHeader&)>& change, const std::string& want) {
    const Interrupted out =
        interrupt(world, 3, [&](int rank, CorruptingTransport& t, Session& s, std::vector<TensorBuffer>& buffers) {
          if (rank == liar)
            t.before_all_to_all = [&](int, std::vector<std::byte>& bytes) {
              PacketHeader header = parse_header(bytes).value();
              change(header);
              write_header(header, bytes.data());
            };
          return reduce_once(s, buffers);
        });
    check_all(out.errors, want);
    check_all(out.afterwards, "");
  };
  rewrite(
      1, [](auto& h) { h.step = 99; }, "rank 1: mapped.fc: step is 99, rank 0 has 1");
  rewrite(
      2, [](auto& h) { h.format.format = Format::e5m2; }, "rank 2: mapped.fc: format is e5m2, rank 0 has e4m3");
  rewrite(
      1, [](auto& h) { h.cols = 41; }, "rank 1: mapped.fc: columns is 41, rank 0 has 40");
  rewrite(
      1, [](auto& h) { h.basis.bytes.fill(0x11); },
      "rank 1: mapped.fc: basis hash is 1111111111111111, rank 0 has " +
          to_string(world.bases.layers.at("mapped.fc")->hash).substr(0, 16));
  // When rank 0 is the odd one, all others differ from it.
  rewrite(
      0, [](auto& h) { h.step = 99; }, "rank 1: mapped.fc: step is 1, rank 0 has 99");
}

TEST_CASE("a sum that is damaged for one receiver alone closes all sessions", "[ranks][session]") {
  const World world = deflated();
  Texts texts(3), later(3);
  run_ranks(3, [&](int rank, Transport& inner) {
    CorruptingTransport t(inner);
    auto session = open(world, t);
    Buffers data = gradients(world, rank, 0), again = data;
    if (rank == 2)
      t.after_all_gather = [](int from, Bytes bytes) {
        if (from == 1) bytes[200] ^= std::byte{1};
      };
    texts[static_cast<std::size_t>(rank)] = reduce_once(*session.value(), as_buffers(world, data));
    later[static_cast<std::size_t>(rank)] = reduce_once(*session.value(), as_buffers(world, again));
  });
  CHECK(texts[2] == "rank 1: mapped.fc: packet from this rank fails its checksum");
  CHECK(later[2] == texts[2]);
  CHECK(later[0] == "rank 2: " + texts[2]);
  CHECK(later[1] == later[0]);
}

TEST_CASE("a rank that dies is noticed by all others at once", "[ranks][session]") {
  const World world = deflated();
  auto transports = make_threads_transports(3);
  Texts texts(2);
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto session = open(world, *transports[rank]);
      if (rank == 2) {
        session = Status(Code::internal, "gone");
        transports[2].reset();
        return;
      }
      Buffers data = gradients(world, static_cast<int>(rank), 0);
      texts[rank] = reduce_once(*session.value(), as_buffers(world, data));
    });
  for (auto& thread : threads) thread.join();
  check_all(texts, "rank 2 has left");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("NaN or Inf on one rank: the whole tensor is NaN everywhere, named, and everything else goes on",
          "[ranks][session][nonfinite]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const GeometrySpec& geometry : all_geometries())
    for (const float poison : {nan, inf, -inf}) {
      INFO(geometry_name(geometry.kind) << " " << side_name(geometry.side) << ", " << poison);
      const World world = make_world("nvfp4:sr", geometry, true, ReduceOp::mean);
      const std::vector<Outcome> clean = run_reference(world, 3, 2);
      Texts texts(3);
      run_ranks(3, [&](int rank, Transport& t) {
        std::string& text = texts[static_cast<std::size_t>(rank)];
        auto session = open(world, t);
        Buffers data = gradients(world, rank, 0);
        text += reduce_once(*session.value(), as_buffers(world, data));
        std::vector<float> residual = session.value()->residual(0), owner = session.value()->owner_residual(0);
        data = gradients(world, rank, 1);
        if (rank >= 1) std::memcpy(&data[0][4 * 123], &poison, 4);  // row 3 of "mapped.fc"
        ReduceReport report;
        text += reduce_once(*session.value(), as_buffers(world, data), &report);
        for (const float value : to_floats(data[0], Dtype::f32))
          if (!std::isnan(value)) {
            text += "not all NaN; ";
            break;
          }
        const TensorReport& told = report.tensors[0];
        if (!told.non_finite || told.non_finite_rank != 1)
          text += "the report names rank " + std::to_string(told.non_finite_rank) + "; ";
        for (std::size_t i = 1; i < data.size(); ++i) {
          if (report.tensors[i].non_finite) text += world.tensors[i].name + " is flagged; ";
          if (data[i] != clean[0].results[1][i]) text += world.tensors[i].name + " differs; ";
        }
        const std::vector<float> now = session.value()->residual(0);
        for (std::size_t i = 0; i < now.size(); ++i)
          if (!(std::fabs(now[i] - residual[i]) <= 1e-6F)) {
            text += "the residual changed; ";
            break;
          }
        if (session.value()->owner_residual(0) != owner) text += "the owner's residual changed; ";
      });
      check_all(texts, "");
    }
}

TEST_CASE("NaN at every place of a block is seen, in every input type", "[ranks][session][nonfinite]") {
  for (const std::string format : {"e4m3", "mxfp8", "nvfp4", "mxfp4", "bf16", "fp32"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const std::size_t place : {0, 1, 15, 16, 31, 32, 100}) {
        World world;
        world.recipe.format = parse_format(format).value();
        world.recipe.exempt_below = 0;
        world.tensors = {{"w", {3, 35}, dtype}};
        Texts texts(2);
        run_ranks(2, [&](int rank, Transport& t) {
          Buffers data = gradients(world, rank, 0);
          const auto width = static_cast<std::size_t>(dtype_bytes(dtype));
          if (rank == 1)
            std::fill_n(data[0].begin() + static_cast<std::ptrdiff_t>(place * width), width,
                        std::byte{0x7F});  // 0x7F7F..: NaN in F16 only
          const std::uint32_t quiet = dtype == Dtype::f16 ? 0x7E007E00U : 0x7FC07FC0U;
          if (rank == 1) std::memcpy(data[0].data() + place * width, &quiet, width);
          if (rank == 1 && dtype == Dtype::f32) {
            const std::uint32_t bits = 0xFFC00001U;
            std::memcpy(data[0].data() + place * width, &bits, width);
          }
          auto session = open(world, t);
          ReduceReport report;
          std::string& text = texts[static_cast<std::size_t>(rank)];
          text = reduce_once(*session.value(), as_buffers(world, data), &report);
          if (text.empty() && (!report.tensors[0].non_finite || report.tensors[0].non_finite_rank != 1)) text = "not seen";
          for (const float value : to_floats(data[0], dtype))
            if (!std::isnan(value)) text = "not NaN";
        });
        INFO(format << " " << dtype_name(dtype) << " at " << place);
        check_all(texts, "");
      }
}

TEST_CASE("a result that is all zero though gradients were not is noticed on all ranks", "[ranks][session]") {
  World world;
  world.recipe.format = parse_format("e4m3").value();
  world.recipe.exempt_below = 0;
  world.recipe.op = ReduceOp::sum;
  world.tensors = {{"cancels", {4, 8}, Dtype::f32}, {"zero", {4, 8}, Dtype::f32}, {"alive", {4, 8}, Dtype::f32}};
  std::vector<std::vector<bool>> vanished(2);
  run_ranks(2, [&](int rank, Transport& t) {
    std::vector<std::vector<float>> data = {std::vector<float>(32, rank == 0 ? 1.0F : -1.0F),
                                            std::vector<float>(32, rank == 0 ? 0.0F : -0.0F),
                                            std::vector<float>(32, rank == 0 ? 1.0F : 0.0F)};
    std::vector<TensorBuffer> buffers;
    for (std::size_t i = 0; i < 3; ++i) buffers.push_back({static_cast<std::int64_t>(i), data[i].data(), 32});
    auto session = open(world, t);
    ReduceReport report;
    if (reduce_once(*session.value(), buffers, &report).empty())
      for (const TensorReport& r : report.tensors) vanished[static_cast<std::size_t>(rank)].push_back(r.vanished);
  });
  for (const auto& v : vanished) CHECK(v == std::vector<bool>{true, false, false});
}
