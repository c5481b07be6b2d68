// N ranks in one thread, and the coordinate maps in FP64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.hpp"
#include "pipeline_kit.hpp"
#include "ref_transform.hpp"

namespace kit {
namespace {

gift::Codec open_codec(const std::string& backend) {
  gift::Result<gift::Codec> codec = gift::Codec::open(backend);
  INFO(codec.status().message());
  REQUIRE(codec.ok());
  return std::move(codec).value();
}

void require_ok(const gift::Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

Bytes copy_of(const Guarded& buffer) { return Bytes(buffer.data(), buffer.data() + buffer.size()); }

std::vector<const std::byte*> pointers(const std::vector<Bytes>& payloads) {
  std::vector<const std::byte*> list;
  for (const Bytes& payload : payloads) list.push_back(payload.data());
  return list;
}

std::size_t shard_cells(const gift::TensorPlan& plan, std::size_t shard) {
  return static_cast<std::size_t>((plan.leg1[shard].row_end - plan.leg1[shard].row_begin) * plan.cols);
}

}  // namespace

Ranks::Ranks(const std::string& backend, const gift::TensorPlan& plan, std::uint64_t seed)
    : plan_(plan), codec_(open_codec(backend)), seed_(seed) {
  if (!plan.error_feedback) return;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(plan.world); ++rank) {
    residual.emplace_back(static_cast<std::size_t>(plan.elements()), 0.0f);
    owner.emplace_back(shard_cells(plan, rank), 0.0f);
  }
}

void Ranks::encode_all(const std::vector<Bytes>& inputs, StepResult& result, std::vector<std::vector<std::uint8_t>>& written) {
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    std::vector<Guarded> payloads;
    std::vector<std::byte*> out;
    for (const gift::PayloadLayout& layout : plan_.leg1) {
      payloads.emplace_back(static_cast<std::size_t>(layout.total_bytes), shift, poison);
    }
    for (Guarded& payload : payloads) out.push_back(payload.data());
    Guarded input(inputs[rank].size(), shift);
    if (!inputs[rank].empty()) std::memcpy(input.data(), inputs[rank].data(), inputs[rank].size());
    gift::EncodeArgs args;
    args.tensor = &plan_;
    args.input = input.data();
    written.emplace_back(static_cast<std::size_t>(plan_.rows) + 1, std::uint8_t{0x55});
    if (plan_.error_feedback) {
      args.residual = residual[rank].data();
      args.row_written = written.back().data();
    }
    args.payloads = out;
    args.key = {seed_, plan_.id, static_cast<std::uint32_t>(rank), step_};
    result.encoded.emplace_back();
    args.stats = &result.encoded.back();
    require_ok(codec_.encode(args));
    CHECK(input.intact());
    CHECK(copy_of(input) == inputs[rank]);
    CHECK(written.back().back() == 0x55);
    result.leg1.emplace_back();
    for (const Guarded& payload : payloads) {
      CHECK(payload.intact());
      result.leg1.back().push_back(copy_of(payload));
    }
    result.non_finite = result.non_finite || result.encoded.back().non_finite;
  }
}

void Ranks::reduce_all(StepResult& result, std::vector<Floats>& losses) {
  for (std::size_t shard = 0; shard < static_cast<std::size_t>(plan_.world); ++shard) {
    const gift::PayloadLayout& layout = plan_.leg2[shard];
    std::vector<const std::byte*> senders;
    for (const std::vector<Bytes>& sender : result.leg1) senders.push_back(sender[shard].data());
    Guarded payload(static_cast<std::size_t>(layout.total_bytes), shift, poison);
    result.quantised.emplace_back(shard_cells(plan_, shard), std::nanf(""));
    losses.emplace_back(static_cast<std::size_t>(plan_.rank_left() * (layout.col_end - layout.col_begin)), std::nanf(""));
    gift::ReduceArgs args;
    args.tensor = &plan_;
    args.shard = static_cast<int>(shard);
    args.payloads = senders;
    if (plan_.error_feedback) args.owner_residual = owner[shard].data();
    args.quantised = result.quantised.back().data();
    const bool left = plan_.deflates() && gift::has_left(plan_.geometry.side);
    if (plan_.error_feedback && left) args.left_loss = losses.back().data();
    args.payload = payload.data();
    args.key = {seed_, plan_.id, 0, step_};
    result.reduced.emplace_back();
    args.stats = &result.reduced.back();
    require_ok(codec_.reduce(args));
    CHECK(payload.intact());
    result.leg2.push_back(copy_of(payload));
    result.non_finite = result.non_finite || result.reduced.back().non_finite;
  }
}

StepResult Ranks::step(const std::vector<Bytes>& inputs) {
  StepResult result;
  std::vector<std::vector<std::uint8_t>> written;
  std::vector<Floats> losses;
  encode_all(inputs, result, written);
  reduce_all(result, losses);
  const std::vector<const std::byte*> gathered = pointers(result.leg2);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    if (plan_.error_feedback && result.non_finite) {
      const std::vector<const std::byte*> own = pointers(result.leg1[rank]);
      gift::RollbackArgs args;
      args.tensor = &plan_;
      args.input = inputs[rank].data();
      args.row_written = written[rank].data();
      args.leg1 = own;
      args.residual = residual[rank].data();
      require_ok(codec_.rollback(args));
    }
    Guarded output(inputs[rank].size(), shift, poison);
    gift::DecodeArgs args;
    args.tensor = &plan_;
    args.payloads = gathered;
    args.non_finite = result.non_finite;
    args.output = output.data();
    args.overflowed = &result.overflowed;
    require_ok(codec_.decode(args));
    CHECK(output.intact());
    result.outputs.push_back(copy_of(output));
    if (!plan_.error_feedback || result.non_finite) continue;
    gift::CommitArgs commit;
    commit.tensor = &plan_;
    commit.shard = static_cast<int>(rank);
    commit.leg2 = gathered;
    commit.quantised = result.quantised[rank].data();
    if (!losses[rank].empty()) commit.left_loss = losses[rank].data();
    commit.owner_residual = owner[rank].data();
    commit.residual = residual[rank].data();
    require_ok(codec_.commit(commit));
  }
  if (!result.non_finite) ++step_;
  return result;
}

StepResult Ranks::step(const std::vector<Floats>& inputs) {
  std::vector<Bytes> bytes;
  for (const Floats& input : inputs) bytes.push_back(to_dtype(input, plan_.dtype));
  return step(bytes);
}

namespace {

/// x <- x (I + U diag U^T), or (I + U diag U^T) x.
void rank_update(const gift::SideBasis& side, const Doubles& diagonal, bool right, std::int64_t rows, std::int64_t cols,
                 Doubles& x) {
  const auto at = [](std::int64_t i, std::int64_t j, std::int64_t width) { return static_cast<std::size_t>(i * width + j); };
  Doubles y = x;
  for (std::int32_t j = 0; j < side.rank; ++j) {
    const std::int64_t lines = right ? rows : cols;
    for (std::int64_t line = 0; line < lines; ++line) {
      double s = 0;
      for (std::int64_t k = 0; k < side.dim; ++k) {
        s += x[right ? at(line, k, cols) : at(k, line, cols)] * static_cast<double>(side.u[at(k, j, side.rank)]);
      }
      s *= diagonal[static_cast<std::size_t>(j)];
      for (std::int64_t k = 0; k < side.dim; ++k) {
        y[right ? at(line, k, cols) : at(k, line, cols)] += s * static_cast<double>(side.u[at(k, j, side.rank)]);
      }
    }
  }
  x = y;
}

void whiten_fp64(const gift::TensorPlan& plan, const gift::SideBasis& side, bool right, bool inverse, Doubles& x) {
  Doubles diagonal;
  for (std::size_t j = 0; j < side.d.size(); ++j) {
    diagonal.push_back(inverse ? static_cast<double>(side.d_inv[j]) : -static_cast<double>(side.d[j]));
  }
  rank_update(side, diagonal, right, plan.rows, plan.cols, x);
}

void hadamard_fp64(const gift::TensorPlan& plan, bool inverse, Doubles& x) {
  const std::int64_t block = plan.geometry.hadamard_block;
  int k = 0;
  while ((std::int64_t{1} << k) < block) ++k;
  const double scale = std::ldexp(1.0, inverse ? -(k / 2) : -((k + 1) / 2));
  for (std::int64_t row = 0; row < plan.rows; ++row) {
    for (std::int64_t begin = 0; begin < plan.cols; begin += block) {
      double* at = x.data() + row * plan.cols + begin;
      Doubles y(static_cast<std::size_t>(block));
      for (std::int64_t i = 0; i < block; ++i) {
        for (std::int64_t j = 0; j < block; ++j) {
          const double sign = __builtin_popcountll(static_cast<unsigned long long>(i & j)) % 2 == 0 ? 1 : -1;
          const double flip = static_cast<double>(gift::ref::column_sign(begin + (inverse ? i : j)));
          y[static_cast<std::size_t>(i)] += sign * flip * at[j];
        }
      }
      for (std::int64_t i = 0; i < block; ++i) at[i] = y[static_cast<std::size_t>(i)] * scale;
    }
  }
}

}  // namespace

void map_fp64(const gift::TensorPlan& plan, Doubles& x, bool inverse) {
  if (plan.geometry.kind == gift::GeometryKind::hadamard) hadamard_fp64(plan, inverse, x);
  if (plan.geometry.kind != gift::GeometryKind::whiten) return;
  const bool right = gift::has_right(plan.geometry.side), left = gift::has_left(plan.geometry.side);
  if (right && !inverse) whiten_fp64(plan, plan.basis->right, true, false, x);
  if (left) whiten_fp64(plan, plan.basis->left, false, inverse, x);
  if (right && inverse) whiten_fp64(plan, plan.basis->right, true, true, x);
}

Doubles widen(const Floats& x) { return Doubles(x.begin(), x.end()); }

double max_abs(const Doubles& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

Doubles owed(const Ranks& ranks) {
  Doubles whole;
  for (const Floats& part : ranks.owner) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

}  // namespace kit
