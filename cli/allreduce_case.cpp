// Runs one case: plan, session, one checked reduction from a fresh state, then warm-up and timed ones.
#include "allreduce_case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "gift/codec.hpp"
#include "gift/session.hpp"
#include "one_process.hpp"

namespace gift::cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A number of each rank, known to all.
template <class T>
Result<std::vector<T>> gather(Transport& transport, T mine) {
  std::vector<T> all(static_cast<std::size_t>(transport.size()));
  std::vector<Bytes> recv;
  for (T& value : all) recv.push_back(std::as_writable_bytes(std::span(&value, 1)));
  if (Status s = transport.all_gather(std::as_bytes(std::span(&mine, 1)), recv); !s.ok()) return s;
  return all;
}

/// FNV-1a, enough to see whether bytes are equal.
std::uint64_t hash_of(const std::vector<std::vector<float>>& data) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const auto& values : data)
    for (const float value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 0x100000001B3ULL;
    }
  return hash;
}

class CaseRun {
 public:
  CaseRun(Transport& transport, const AllreduceCase& work) : transport_(transport), work_(work) {}

  Result<AllreduceResult> run() {
    Result<Plan> plan = Plan::make(work_.recipe, work_.tensors, transport_.size(), work_.bases);
    if (Status s = agree(transport_, plan.ok() ? Status() : plan.status()); !s.ok()) return s;
    SessionOptions options;
    options.backend = work_.backend;
    Result<std::unique_ptr<Session>> session = Session::open(plan.value(), transport_, options);
    if (!session.ok()) return session.status();
    session_ = std::move(session).value();
    size_up();
    for (Status (CaseRun::*step)() : {&CaseRun::check, &CaseRun::measure_time})
      if (Status s = (this->*step)(); !s.ok()) return s;
    return result_;
  }

 private:
  void size_up() {
    const Plan& plan = session_->plan();
    for (const TensorPlan& t : plan.tensors()) result_.count += t.elements();
    result_.bytes = 4 * result_.count;
    result_.wire_ratio = plan.world() > 1 && plan.fp32_bytes_per_rank() > 0
                             ? plan.wire_bytes_per_rank() / plan.fp32_bytes_per_rank()
                             : plan.bits_per_element() / 32;
  }

  Status reduce_once() {
    data_ = work_.inputs;
    std::vector<TensorBuffer> buffers;
    for (std::size_t i = 0; i < data_.size(); ++i)
      buffers.push_back({static_cast<std::int64_t>(i), data_[i].data(), static_cast<std::int64_t>(data_[i].size())});
    const Clock::time_point start = Clock::now();
    if (Status s = session_->reduce(buffers); !s.ok()) return s;
    Result<ReduceReport> report = session_->wait();
    last_s_ = seconds_since(start);
    if (!report.ok()) return report.status();
    report_ = std::move(report).value();
    return {};
  }

  /// The first reduction of the session: no residual yet, random step 0.
  Status check() {
    if (Status s = reduce_once(); !s.ok()) return s;
    for (const TensorReport& told : report_.tensors) {
      const std::string& name = work_.tensors[static_cast<std::size_t>(told.tensor)].name;
      if (told.vanished) result_.vanished.push_back(name);
      if (told.non_finite) result_.non_finite.push_back(name + " (rank " + std::to_string(told.non_finite_rank) + ")");
    }
    const auto hashes = gather(transport_, hash_of(data_));
    if (!hashes.ok()) return hashes.status();
    result_.replicas_equal = std::all_of(hashes->begin(), hashes->end(), [&](std::uint64_t h) { return h == hashes->front(); });
    const auto sent = gather(transport_, report_.bytes_sent);
    if (!sent.ok()) return sent.status();
    for (const std::uint64_t bytes : *sent) result_.wire_bytes += static_cast<double>(bytes) / transport_.size();
    if (Status s = count_wrong(); !s.ok()) return s;
    return work_.measure_error ? measure_error() : Status();
  }

  Status count_wrong() {
    std::int64_t mine = 0;
    if (work_.count_wrong) {
      for (std::size_t i = 0; i < data_.size(); ++i) mine += work_.count_wrong(i, data_[i]);
    } else if (work_.compare_with_one_process) {
      if (Status s = compare_with_one_process(mine); !s.ok()) return s;
    } else {
      return {};
    }
    const auto all = gather(transport_, mine);
    if (!all.ok()) return all.status();
    result_.wrong = std::accumulate(all->begin(), all->end(), std::int64_t{0});
    return {};
  }

  /// Every rank computes the whole reduction alone, from all ranks' gradients, and compares its own result bit for bit.
  Status compare_with_one_process(std::int64_t& wrong) {
    Result<Codec> codec = Codec::open(work_.backend);
    Status mine = codec.ok() ? Status() : codec.status();
    for (std::size_t i = 0; i < data_.size(); ++i) {
      std::vector<std::vector<float>> all;
      if (Status s = gather_inputs(i, 0, data_[i].size(), all); !s.ok()) return s;
      if (!mine.ok()) continue;
      Result<std::vector<float>> expected =
          reduce_in_one_process(codec.value(), session_->plan().tensors()[i], work_.recipe.seed, all);
      if (!expected.ok()) {
        mine = expected.status();
        continue;
      }
      for (std::size_t j = 0; j < data_[i].size(); ++j)
        wrong += std::memcmp(&data_[i][j], &expected.value()[j], sizeof(float)) != 0;
    }
    return agree(transport_, mine);
  }

  Status gather_inputs(std::size_t tensor, std::size_t begin, std::size_t count, std::vector<std::vector<float>>& all) {
    all.assign(static_cast<std::size_t>(transport_.size()), std::vector<float>(count));
    std::vector<Bytes> recv;
    for (auto& values : all) recv.push_back(std::as_writable_bytes(std::span(values)));
    return transport_.all_gather(std::as_bytes(std::span(work_.inputs[tensor]).subspan(begin, count)), recv);
  }

  /// |result - true| / |true| over all tensors; the true mean (or sum) in FP64, in pieces, so that memory stays bounded.
  Status measure_error() {
    constexpr std::size_t piece = std::size_t{1} << 20;
    double error = 0, energy = 0;
    const double share = work_.recipe.op == ReduceOp::mean ? 1.0 / transport_.size() : 1.0;
    for (std::size_t i = 0; i < data_.size(); ++i)
      for (std::size_t at = 0; at < data_[i].size(); at += piece) {
        const std::size_t count = std::min(piece, data_[i].size() - at);
        std::vector<std::vector<float>> all;
        if (Status s = gather_inputs(i, at, count, all); !s.ok()) return s;
        for (std::size_t j = 0; j < count; ++j) {
          double truth = 0;
          for (const auto& values : all) truth += static_cast<double>(values[j]);
          truth *= share;
          const double off = static_cast<double>(data_[i][at + j]) - truth;
          error += off * off;
          energy += truth * truth;
        }
      }
    result_.rel_l2 = energy > 0 ? std::sqrt(error / energy) : error > 0 ? std::nan("") : 0.0;
    return {};
  }

  Status measure_time() {
    double total = 0;
    for (std::int64_t i = -work_.warmup; i < work_.iterations; ++i) {
      if (Status s = transport_.barrier(); !s.ok()) return s;
      if (Status s = reduce_once(); !s.ok()) return s;
      if (i < 0) continue;
      const double share = 1.0 / static_cast<double>(work_.iterations);
      total += last_s_ * share;
      result_.encode_s += report_.encode_s * share;
      result_.exchange_s += report_.exchange_s * share;
      result_.reduce_s += report_.reduce_s * share;
      result_.gather_s += report_.gather_s * share;
      result_.decode_s += report_.decode_s * share;
    }
    const auto all = gather(transport_, total);
    if (!all.ok()) return all.status();
    result_.time_s = *std::max_element(all->begin(), all->end());
    return {};
  }

  Transport& transport_;
  const AllreduceCase& work_;
  std::unique_ptr<Session> session_;
  std::vector<std::vector<float>> data_;
  ReduceReport report_;
  double last_s_ = 0;
  AllreduceResult result_;
};

template <class Text>
std::string common(const Plan& plan, Text text) {
  std::string first;
  for (int pass = 0; pass < 2 && first.empty(); ++pass)  // exempt tensors speak only if there are no others
    for (const TensorPlan& t : plan.tensors()) {
      if ((t.exempt && pass == 0) || t.elements() == 0) continue;
      if (first.empty()) first = text(t);
      if (first != text(t)) return "mixed";
    }
  return first;
}

}  // namespace

Result<AllreduceResult> run_case(Transport& transport, const AllreduceCase& work) { return CaseRun(transport, work).run(); }

std::string format_text(const Plan& plan) {
  return common(plan, [](const TensorPlan& t) { return to_string(t.format); });
}

std::string coordinates_text(const Plan& plan) {
  return common(plan, [](const TensorPlan& t) {
    std::string text = geometry_name(t.geometry.kind);
    if (t.geometry.kind == GeometryKind::whiten || t.geometry.kind == GeometryKind::deflate)
      text += std::string(" ") + side_name(t.geometry.side) + " " + std::to_string(std::max(t.rank_right(), t.rank_left()));
    return text;
  });
}

}  // namespace gift::cli
