// When ranks disagree, send damaged packets, pass wrong arguments, hold NaN or die: every rank gets the same named error, soon,
// and after errors that all saw the session goes on as if the call had not been made.
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "catch.hpp"
#include "corrupting_transport.hpp"
#include "packet.hpp"
#include "rank_threads.hpp"
#include "session_cases.hpp"

using namespace gift;
using namespace gift::tests;
using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

World deflated(bool feedback = true) { return make_world("e4m3", all_geometries()[5], feedback, ReduceOp::mean); }

Result<std::unique_ptr<Session>> open(const World& world, Transport& t, std::uint64_t first_step = 0) {
  Result<Plan> plan = Plan::make(world.recipe, world.tensors, t.size(), world.bases);
  if (!plan.ok()) return plan.status();
  SessionOptions options;
  options.first_step = first_step;
  return Session::open(plan.value(), t, options);
}

/// Opens a session where rank 1 has another world; the errors by rank.
Texts open_with(const World& usual, const World& odd, int ranks = 3, std::uint64_t odd_step = 0) {
  Texts texts(static_cast<std::size_t>(ranks));
  const auto start = std::chrono::steady_clock::now();
  run_ranks(ranks, [&](int rank, Transport& t) {
    const auto session = open(rank == 1 ? odd : usual, t, rank == 1 ? odd_step : 0);
    texts[static_cast<std::size_t>(rank)] = session.ok() ? "opened" : session.status().message();
  });
  if (std::chrono::steady_clock::now() - start > 5s) texts[0] += " (after more than five seconds)";
  return texts;
}

void check_all(const Texts& texts, const std::string& want) {
  for (const std::string& text : texts) CHECK(text == want);
}

/// One reduce and wait; the error, or "".
std::string reduce_once(Session& session, std::span<const TensorBuffer> buffers, ReduceReport* report = nullptr) {
  if (Status s = session.reduce(buffers); !s.ok()) return s.message();
  Result<ReduceReport> result = session.wait();
  if (!result.ok()) return "wait: " + result.status().message();
  if (report) *report = result.value();
  return {};
}

/// Two good steps around a bad one on each rank. `spoil` makes the bad call (it may change transport and buffers) and returns its
/// error. Results and residuals must be those of a run without the bad call.
struct Interrupted {
  Texts errors;      ///< of the bad call
  Texts afterwards;  ///< what differs after the second good step
};
Interrupted interrupt(
    const World& world, int ranks,
    const std::function<std::string(int rank, CorruptingTransport&, Session&, std::vector<TensorBuffer>&)>& spoil) {
  const std::vector<Outcome> want = run_reference(world, ranks, 2);
  Interrupted out;
  out.errors.resize(static_cast<std::size_t>(ranks));
  out.afterwards.resize(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank, Transport& inner) {
    const auto me = static_cast<std::size_t>(rank);
    std::string& after = out.afterwards[me];
    CorruptingTransport t(inner);
    auto session = open(world, t);
    if (!session.ok()) return void(after = session.status().message());
    Session& s = *session.value();
    Buffers first = gradients(world, rank, 0);
    if (after = reduce_once(s, as_buffers(world, first)); !after.empty()) return;
    std::vector<std::vector<float>> residuals;
    for (std::size_t i = 0; i < first.size(); ++i) residuals.push_back(s.residual(static_cast<std::int64_t>(i)));

    Buffers bad = gradients(world, rank, 77);
    const Buffers untouched = bad;
    std::vector<TensorBuffer> buffers = as_buffers(world, bad);
    out.errors[me] = spoil(rank, t, s, buffers);
    t.before_all_to_all = nullptr;
    t.before_all_gather = nullptr;
    t.after_all_gather = nullptr;
    if (bad != untouched) after += "buffers changed; ";
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::vector<float> now = s.residual(static_cast<std::int64_t>(i));
      for (std::size_t j = 0; j < now.size(); ++j)
        if (!(std::fabs(now[j] - residuals[i][j]) <= 1e-7F)) {
          after += world.tensors[i].name + ": residual not put back; ";
          break;
        }
    }
    Buffers second = gradients(world, rank, 1);
    if (const std::string e = reduce_once(s, as_buffers(world, second)); !e.empty()) return void(after += e);
    for (std::size_t i = 0; i < second.size(); ++i) {
      const auto got = to_floats(second[i], world.tensors[i].dtype),
                 expected = to_floats(want[me].results[1][i], world.tensors[i].dtype);
      for (std::size_t j = 0; j < got.size(); ++j)
        if (!(std::fabs(got[j] - expected[j]) <= 0.02F * std::fabs(expected[j]) + 2e-3F)) {
          after += world.tensors[i].name + ": result after the error differs; ";
          break;
        }
    }
  });
  return out;
}

void flip(std::vector<std::byte>& bytes, std::size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8); }

}  // namespace

TEST_CASE("open: disagreement is named with rank, tensor and both values, on all ranks alike", "[ranks][session][mismatch]") {
  const World usual = deflated();
  check_all(open_with(usual, usual), "opened");

  World odd = deflated();
  odd.tensors[2].shape = {2, 34};
  check_all(open_with(usual, odd), "rank 1: tensor 'few_rows': shape is [2, 34], rank 0 has [2, 33]");

  odd = deflated();
  odd.tensors.pop_back();
  check_all(open_with(usual, odd), "rank 1: has no more tensors where rank 0 has 'one_column'");

  odd = deflated();
  odd.tensors[3].dtype = Dtype::bf16;
  check_all(open_with(usual, odd), "rank 1: tensor 'conv': dtype is bf16, rank 0 has f32");

  odd = make_world("e5m2", all_geometries()[5], true, ReduceOp::mean);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': format is e5m2, rank 0 has e4m3");

  odd = make_world("e4m3:sr", all_geometries()[5], true, ReduceOp::mean);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': format is e4m3:sr, rank 0 has e4m3");

  odd = make_world("e4m3", all_geometries()[6], true, ReduceOp::mean);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': side is left, rank 0 has right");

  odd = make_world("e4m3", all_geometries()[5], false, ReduceOp::mean);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': error feedback is off, rank 0 has on");

  odd = make_world("e4m3", all_geometries()[5], true, ReduceOp::sum);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': op is sum, rank 0 has mean");

  odd = deflated();
  odd.bases.layers["mapped.fc"] = random_basis(all_geometries()[5], 12, 40, 4321);
  const std::string other = to_string(odd.bases.layers["mapped.fc"]->hash),
                    ours = to_string(usual.bases.layers.at("mapped.fc")->hash);
  check_all(open_with(usual, odd), "rank 1: tensor 'mapped.fc': basis is " + other + ", rank 0 has " + ours);

  odd = deflated();
  odd.recipe.seed = 43;
  for (const std::string& text : open_with(usual, odd)) {
    CHECK(text.rfind("rank 1: recipe (hash) is ", 0) == 0);
    CHECK(text == open_with(usual, odd)[0]);
  }
  check_all(open_with(usual, usual, 4, 9), "rank 1: step is 9, rank 0 has 0");
}

TEST_CASE("open: a plan for another number of ranks, or a backend that is not there, is told to all",
          "[ranks][session][mismatch]") {
  const World world = deflated();
  Texts texts(3);
  run_ranks(3, [&](int rank, Transport& t) {
    const auto s = Session::open(Plan::make(world.recipe, world.tensors, rank == 2 ? 4 : 3, world.bases).value(), t);
    texts[static_cast<std::size_t>(rank)] = s.status().message();
  });
  check_all(texts, "rank 2: the plan is for 4 ranks, the transport has 3");
  run_ranks(3, [&](int rank, Transport& t) {
    SessionOptions options;
    options.backend = rank == 1 ? "abacus" : "cpu";
    texts[static_cast<std::size_t>(rank)] =
        Session::open(Plan::make(world.recipe, world.tensors, 3, world.bases).value(), t, options).status().message();
  });
  for (const std::string& text : texts) {
    CHECK(text.rfind("rank 1: ", 0) == 0);
    CHECK(text.find("abacus") != std::string::npos);
  }
}

TEST_CASE("reduce: wrong arguments on one rank are that rank's error on all, and nothing else happens", "[ranks][session]") {
  const World world = deflated();
  const auto with = [&](const std::function<void(std::vector<TensorBuffer>&)>& change, const std::string& want) {
    const Interrupted out =
        interrupt(world, 3, [&](int rank, CorruptingTransport&, Session& s, std::vector<TensorBuffer>& buffers) {
          if (rank == 1) change(buffers);
          return reduce_once(s, buffers);
        });
    check_all(out.errors, want);
    check_all(out.afterwards, "");
  };
  with([](auto& b) { b[3].count += 1; }, "rank 1: conv: buffer has 109 elements, expected 108");
  with([](auto& b) { b[0].count = -5; }, "rank 1: mapped.fc: buffer has -5 elements, expected 480");
  with([](auto& b) { b[4].data = nullptr; }, "rank 1: bias: buffer is null");
  with(
      [](auto& b) {
        b[4].tensor = 3;
        b[4].count = 108;
      },
      "rank 1: conv: given twice in one reduce");
  with([](auto& b) { b[0].tensor = 99; }, "rank 1: tensor index 99, the plan has 9 tensors");
  with([](auto& b) { b[0].tensor = -1; }, "rank 1: tensor index -1, the plan has 9 tensors");
}

TEST_CASE("reduce: the lowest rank's error wins", "[ranks][session]") {
  const Interrupted out =
      interrupt(deflated(), 4, [&](int rank, CorruptingTransport&, Session& s, std::vector<TensorBuffer>& buffers) {
        if (rank == 3) buffers[0].count = 1;
        if (rank == 2) buffers[3].count = 2;
        return reduce_once(s, buffers);
      });
  check_all(out.errors, "rank 2: conv: buffer has 2 elements, expected 108");
  check_all(out.afterwards, "");
}

TEST_CASE("reduce of a part of the plan: lists are compared first", "[ranks][session]") {
  const World world = deflated();
  const auto with = [&](const std::function<std::vector<TensorBuffer>(int, std::vector<TensorBuffer>&)>& pick,
                        const std::string& want) {
    const Interrupted out =
        interrupt(world, 3, [&](int rank, CorruptingTransport&, Session& s, std::vector<TensorBuffer>& buffers) {
          return reduce_once(s, pick(rank, buffers));
        });
    check_all(out.errors, want);
    check_all(out.afterwards, "");
  };
  with(
      [](int rank, auto& b) {
        return std::vector<TensorBuffer>{b[0], b[rank == 2 ? 2 : 1]};
      },
      "rank 2: elements to reduce: 546, rank 0 has 720");
  with(
      [](int rank, auto& b) {
        return rank == 1 ? std::vector<TensorBuffer>{b[0]} : std::vector<TensorBuffer>{b[0], b[1]};
      },
      "rank 1: tensors to reduce: 1, rank 0 has 2");
  with(
      [](int rank, auto& b) {
        std::vector<TensorBuffer> some = {b[0], b[3]};
        if (rank == 2) some[1].count = 7;
        return some;
      },
      "rank 2: conv: buffer has 7 elements, expected 108");
  with(
      [](int rank, auto& b) {
        std::vector<TensorBuffer> some = {b[0]};
        if (rank == 1) some[0].tensor = 1000;
        return some;
      },
      "rank 1: tensor index 1000, the plan has 9 tensors");
}

TEST_CASE("reduce of a part of the plan computes what a plan of that part computes", "[ranks][session]") {
  const World world = deflated();
  const std::vector<Outcome> want = run_reference(world, 3, 1);
  Texts texts(3);
  run_ranks(3, [&](int rank, Transport& t) {
    auto session = open(world, t);
    Buffers data = gradients(world, rank, 0);
    const std::vector<TensorBuffer> all = as_buffers(world, data);
    std::string& text = texts[static_cast<std::size_t>(rank)];
    // The order within a call does not matter, even if ranks have different ones.
    const std::vector<TensorBuffer> some =
        rank == 0 ? std::vector<TensorBuffer>{all[3], all[0]} : std::vector<TensorBuffer>{all[0], all[3]};
    text += reduce_once(*session.value(), some);
    text += reduce_once(*session.value(), std::vector<TensorBuffer>{all[1]});
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}})
      if (data[i] != want[0].results[0][i]) text += world.tensors[i].name + " differs; ";
    if (data[2] != gradients(world, rank, 0)[2]) text += "few_rows was touched; ";
  });
  check_all(texts, "");
}

TEST_CASE("reduce: one rank reduces all and another a part: all fail soon", "[ranks][session]") {
  const World world = deflated();
  const auto start = std::chrono::steady_clock::now();
  Texts texts(3);
  run_ranks(3, [&](int rank, Transport& t) {
    auto session = open(world, t);
    Buffers data = gradients(world, rank, 0);
    std::vector<TensorBuffer> buffers = as_buffers(world, data);
    if (rank == 2) buffers.resize(1);
    texts[static_cast<std::size_t>(rank)] = reduce_once(*session.value(), buffers);
  });
  check_all(texts, "rank 2 called all_gather, rank 0 called all_to_all");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

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

TEST_CASE("calls out of order are refused", "[ranks][session]") {
  const World world = deflated();
  Texts texts(1);
  run_ranks(1, [&](int, Transport& t) {
    auto session = open(world, t);
    Buffers data = gradients(world, 0, 0);
    const auto buffers = as_buffers(world, data);
    texts[0] = session.value()->wait().status().message();
    texts[0] += "; " + session.value()->reduce(buffers).message();
    texts[0] += "; " + session.value()->reduce(buffers).message();
    texts[0] += "; " + session.value()->wait().status().message();
  });
  CHECK(texts[0] == "wait without a reduce that succeeded; ; reduce called before wait; reduce called before wait");
}
