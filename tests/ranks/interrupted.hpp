// Sessions that meet an error between two good steps, for the tests of what errors do.
#pragma once

#include <chrono>
#include <cmath>

#include "catch.hpp"
#include "corrupting_transport.hpp"
#include "rank_threads.hpp"
#include "session_cases.hpp"

namespace gift::tests {

using Texts = std::vector<std::string>;

inline World deflated(bool feedback = true) { return make_world("e4m3", all_geometries()[5], feedback, ReduceOp::mean); }

inline Result<std::unique_ptr<Session>> open(const World& world, Transport& t, std::uint64_t first_step = 0) {
  Result<Plan> plan = Plan::make(world.recipe, world.tensors, t.size(), world.bases);
  if (!plan.ok()) return plan.status();
  SessionOptions options;
  options.first_step = first_step;
  return Session::open(plan.value(), t, options);
}

inline void check_all(const Texts& texts, const std::string& want) {
  for (const std::string& text : texts) CHECK(text == want);
}

/// One reduce and wait; the error, or "".
inline std::string reduce_once(Session& session, std::span<const TensorBuffer> buffers, ReduceReport* report = nullptr) {
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
inline Interrupted interrupt(
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

}  // namespace gift::tests
