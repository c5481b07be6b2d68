// Sessions that are saved, loaded and given new bases: nothing is lost, nothing foreign is accepted, and a file of the first
// version is read for ever.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "catch.hpp"
#include "gift/safetensors.hpp"
#include "packet.hpp"
#include "rank_threads.hpp"
#include "session_cases.hpp"

using namespace gift;
using namespace gift::tests;

namespace {

/// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("gift-state-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, int rank) const { return (path_ / (name + "-rank" + std::to_string(rank))).string(); }

 private:
  std::filesystem::path path_;
};

Result<std::unique_ptr<Session>> open(const World& world, Transport& t) {
  Result<Plan> plan = Plan::make(world.recipe, world.tensors, t.size(), world.bases);
  if (!plan.ok()) return plan.status();
  return Session::open(plan.value(), t);
}

/// Step `step` of `world`; the result, or nothing after an error.
std::string step_once(const World& world, Session& session, int rank, int step, Buffers& data) {
  data = gradients(world, rank, step);
  if (Status s = session.reduce(as_buffers(world, data)); !s.ok()) return s.message();
  Result<ReduceReport> r = session.wait();
  return r.ok() ? std::string() : r.status().message();
}

std::string fixture(int rank) {
  return std::string(GIFT_FIXTURES) + "/golden/session-state-v1-rank" + std::to_string(rank) + ".safetensors";
}

std::uint64_t hash_of(const Buffers& data) {
  std::vector<std::byte> all;
  for (const auto& bytes : data) all.insert(all.end(), bytes.begin(), bytes.end());
  return xxh3_64(all);
}

}  // namespace

TEST_CASE("3 steps, save, load, 3 steps: the bytes of 6 steps", "[ranks][session][state]") {
  const Folder folder;
  for (const std::string format : {"nvfp4:sr", "e4m3"})
    for (const GeometrySpec& geometry : all_geometries()) {
      const World world = make_world(format, geometry, true, ReduceOp::mean);
      const std::vector<Outcome> want = run_reference(world, 3, 6);
      std::vector<std::string> texts(3);
      run_ranks(3, [&](int rank, Transport& t) {
        std::string& text = texts[static_cast<std::size_t>(rank)];
        Buffers data;
        {
          auto session = open(world, t);
          for (int step = 0; step < 3; ++step) text += step_once(world, *session.value(), rank, step, data);
          text += session.value()->save(folder.file("a", rank)).message();
        }
        auto session = open(world, t);
        text += session.value()->load(folder.file("a", rank)).message();
        if (session.value()->step() != 3) text += "step is not 3; ";
        for (int step = 3; step < 6; ++step) {
          text += step_once(world, *session.value(), rank, step, data);
          if (data != want[0].results[static_cast<std::size_t>(step)]) text += "step " + std::to_string(step) + " differs; ";
        }
        for (std::size_t i = 0; i < world.tensors.size(); ++i)
          if (session.value()->residual(static_cast<std::int64_t>(i)) != want[static_cast<std::size_t>(rank)].residuals[i])
            text += "residual differs; ";
      });
      INFO(format << " " << geometry_name(geometry.kind) << " " << side_name(geometry.side));
      for (const std::string& text : texts) CHECK(text == "");
    }
}

TEST_CASE("a state that does not fit is refused by all ranks, and the session stays as it was", "[ranks][session][state]") {
  const Folder folder;
  const GeometrySpec deflate{GeometryKind::deflate, Side::both, 3, 0.5, 1.0, 0};
  const World world = make_world("e4m3", deflate, true, ReduceOp::mean);
  const std::vector<Outcome> want = run_reference(world, 3, 2);
  /// Saves in `before`'s world after `steps(rank)` steps, loads file_of(rank) into a session of `world` after one step, does
  /// another.
  const auto attempt = [&](const World& before, const std::function<int(int)>& steps,
                           const std::function<std::string(int)>& file_of) {
    std::vector<std::string> errors(3), after(3);
    for (int only = 0; only < 3; ++only)  // rank by rank, so that their steps may differ
      run_ranks(3, [&](int rank, Transport& t) {
        auto session = open(before, t);
        Buffers data;
        for (int step = 0; step < steps(only); ++step) (void)step_once(before, *session.value(), rank, step, data);
        if (rank == only && !session.value()->save(folder.file("b", rank)).ok())
          errors[static_cast<std::size_t>(rank)] = "not saved";
      });
    run_ranks(3, [&](int rank, Transport& t) {
      const auto me = static_cast<std::size_t>(rank);
      auto session = open(world, t);
      Buffers data;
      after[me] += step_once(world, *session.value(), rank, 0, data);
      errors[me] += session.value()->load(file_of(rank)).message();
      after[me] += step_once(world, *session.value(), rank, 1, data);
      if (data != want[0].results[1]) after[me] += "the next step differs";
    });
    for (const std::string& text : after) CHECK(text == "");
    CHECK(errors[0] == errors[1]);
    CHECK(errors[0] == errors[2]);
    return errors[0];
  };
  const auto two = [](int) { return 2; };
  const auto own = [&](int rank) { return folder.file("b", rank); };
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text << " -- should contain: " << part);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(attempt(world, two, [&](int rank) { return rank == 1 ? folder.file("missing", 1) : own(rank); }),
           "rank 1: " + folder.file("missing", 1));
  contains(attempt(world, two, [&](int rank) { return own(rank == 2 ? 0 : rank); }), "rank is 0, this session has 2");
  contains(attempt(
               world, [](int rank) { return rank == 1 ? 1 : 2; }, own),
           "rank 1: step is 1, rank 0 has 2");
  contains(attempt(make_world("e5m2", deflate, true, ReduceOp::mean), two, own), "hash of formats and geometries is");
  World other = world;
  other.recipe.seed = 7;
  contains(attempt(other, two, own), "hash of the recipe is");
  other = world;
  other.bases.layers["mapped.fc"] = random_basis(deflate, 12, 40, 99);
  contains(attempt(other, two, own), "basis hash is");
  other = world;
  other.tensors[4].name = "bias2";
  contains(attempt(other, two, own), "hash of names, shapes and dtypes is");

  // One bit of a residual.
  contains(attempt(world, two,
                   [&](int rank) {
                     if (rank != 1) return own(rank);
                     std::FILE* file = std::fopen(own(1).c_str(), "r+b");
                     std::fseek(file, -5, SEEK_END);
                     const int byte = std::fgetc(file);
                     std::fseek(file, -5, SEEK_END);
                     std::fputc(byte ^ 1, file);
                     std::fclose(file);
                     return own(1);
                   }),
           "do not have the hash that the file says");
  contains(attempt(world, two,
                   [&](int rank) {
                     if (rank == 0 && !write_safetensors(own(0), {{"x", "F32", {1}, std::vector<std::byte>(4)}}, {}).ok())
                       return std::string();
                     return own(rank);
                   }),
           "no state of a session");
}

TEST_CASE("states of version 1 are read", "[ranks][session][state][golden]") {
  const World world = make_world("nvfp4:sr", {}, true, ReduceOp::mean);
  std::vector<std::string> texts(2);
  std::vector<std::uint64_t> hashes(2);
  run_ranks(2, [&](int rank, Transport& t) {
    std::string& text = texts[static_cast<std::size_t>(rank)];
    auto session = open(world, t);
    Buffers data;
    if (std::getenv("GIFT_WRITE_GOLDEN")) {  // how the files were made
      for (int step = 0; step < 2; ++step) text += step_once(world, *session.value(), rank, step, data);
      text += session.value()->save(fixture(rank)).message();
    }
    text += session.value()->load(fixture(rank)).message();
    if (session.value()->step() != 2) text += "step";
    text += step_once(world, *session.value(), rank, 2, data);
    hashes[static_cast<std::size_t>(rank)] = hash_of(data);
  });
  CHECK(texts[0] == "");
  CHECK(texts[1] == "");
  CHECK(hashes[0] == 0x890d9c45a82dfd64U);
  CHECK(hashes[1] == hashes[0]);
}

TEST_CASE("new bases: residuals move with them, and what was owed is still paid", "[ranks][session][refresh]") {
  constexpr int ranks = 3;
  for (const GeometrySpec& geometry : all_geometries()) {
    if (geometry.kind != GeometryKind::whiten && geometry.kind != GeometryKind::deflate) continue;
    World world = make_world("e4m3:row", geometry, true, ReduceOp::mean), next = world;
    next.bases.layers["mapped.fc"] = random_basis(geometry, 12, 40, 5555);
    next.bases.layers["mapped.experts"] = random_basis(geometry, 10, 24, 6666);
    // What came out over all steps plus what is still owed equals what went in. Residuals of whiten live in other coordinates, so
    // they are read after a last refresh to the geometry's first basis would not help; instead the owed part is paid out by zero
    // gradients.
    std::vector<std::vector<double>> in(ranks), out(ranks);
    std::vector<std::string> texts(ranks);
    run_ranks(ranks, [&](int rank, Transport& t) {
      const auto me = static_cast<std::size_t>(rank);
      auto session = open(world, t);
      in[me].assign(480, 0);
      out[me].assign(480, 0);
      for (int step = 0; step < 40; ++step) {
        if (step == 2) texts[me] += session.value()->set_bases(next.bases).message();
        if (step == 3) texts[me] += session.value()->set_bases(world.bases).message();
        Buffers data = gradients(world, rank, step);
        if (step >= 4)
          for (auto& bytes : data) std::fill(bytes.begin(), bytes.end(), std::byte{0});
        const std::vector<float> w = to_floats(data[0], Dtype::f32);
        for (std::size_t i = 0; i < 480; ++i) in[me][i] += static_cast<double>(w[i]);
        if (Status s = session.value()->reduce(as_buffers(world, data)); !s.ok()) texts[me] += s.message();
        if (Result<ReduceReport> r = session.value()->wait(); !r.ok()) texts[me] += r.status().message();
        const std::vector<float> y = to_floats(data[0], Dtype::f32);
        for (std::size_t i = 0; i < 480; ++i) out[me][i] += static_cast<double>(y[i]);
      }
    });
    INFO(geometry_name(geometry.kind) << " " << side_name(geometry.side));
    for (const std::string& text : texts) REQUIRE(text == "");
    double worst = 0, scale = 0, noise = 0;
    for (std::size_t i = 0; i < 480; ++i) {
      double mean = 0;
      for (const auto& v : in) mean += v[i] / ranks;
      // Row 4 is zero on all ranks and decodes to exactly 0 as long as it is; what quantising left in it under left whiten, where
      // rows are mixed, is paid out once the refresh has moved it. That is noise of the format and not a loss: bounded apart.
      if (i / 40 == 4 && geometry.kind == GeometryKind::whiten && has_left(geometry.side))
        noise = std::max(noise, std::fabs(out[0][i]));
      else
        worst = std::max(worst, std::fabs(mean - out[0][i]));
      scale = std::max(scale, std::fabs(mean));
    }
    INFO("worst " << worst << ", scale " << scale);
    CHECK(worst <= 1e-5 * scale);
    CHECK(noise <= 0x1p-4 * scale);
  }
}

TEST_CASE("new bases that ranks do not share are refused by all, and the session goes on with the old ones",
          "[ranks][session][refresh]") {
  const GeometrySpec deflate{GeometryKind::deflate, Side::right, 3, 0.5, 1.0, 0};
  const World world = make_world("e4m3", deflate, true, ReduceOp::mean);
  const std::vector<Outcome> want = run_reference(world, 3, 2);
  std::vector<std::string> differ(3), missing(3), after(3);
  run_ranks(3, [&](int rank, Transport& t) {
    const auto me = static_cast<std::size_t>(rank);
    auto session = open(world, t);
    Buffers data;
    after[me] += step_once(world, *session.value(), rank, 0, data);
    BasisSet bases = world.bases;
    if (rank == 2) bases.layers["mapped.experts"] = random_basis(deflate, 10, 24, 777);
    differ[me] = session.value()->set_bases(bases).message();
    if (rank == 1) bases.layers.erase("mapped.fc");
    missing[me] = session.value()->set_bases(bases).message();
    after[me] += step_once(world, *session.value(), rank, 1, data);
    if (data != want[0].results[1]) after[me] += "the next step differs";
  });
  for (const std::string& text : differ) {
    CHECK(text.rfind("rank 2: tensor 'mapped.experts': basis is ", 0) == 0);
    CHECK(text == differ[0]);
  }
  for (const std::string& text : missing) {
    CHECK(text.rfind("rank 1: tensor 'mapped.fc': ", 0) == 0);
    CHECK(text == missing[0]);
  }
  for (const std::string& text : after) CHECK(text == "");
}
