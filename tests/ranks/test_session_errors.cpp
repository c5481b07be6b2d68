// When ranks disagree or pass wrong arguments: every rank gets the same named error, soon, and after errors that all saw the
// session goes on as if the call had not been made.
#include "interrupted.hpp"

using namespace gift;
using namespace gift::tests;
using namespace std::chrono_literals;

namespace {

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
