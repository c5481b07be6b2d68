// New bases for a running session. The plan is made anew, all ranks agree on it, and residuals move to the new coordinates.
#include <new>

#include "backend.hpp"
#include "session_body.hpp"

namespace gift {
namespace {

std::vector<TensorDesc> descriptions(const Plan& plan) {
  std::vector<TensorDesc> tensors;
  for (const TensorPlan& t : plan.tensors()) tensors.push_back({t.name, t.shape, t.dtype});
  return tensors;
}

/// Moves one tensor's residuals from one plan's coordinates to another's.
Status move_residuals(const Codec& codec, const TensorPlan& from, const TensorPlan& to, int shard, const TensorState& old_state,
                      TensorState& new_state) {
  new_state.committed = old_state.committed;
  if (old_state.residual.empty()) return {};
  new_state.residual = old_state.residual;
  new_state.owner_residual = old_state.owner_residual;
  float* owner = new_state.owner_residual.empty() ? nullptr : new_state.owner_residual.data();
  return backend_of(codec).re_express(from, to, shard, owner, new_state.residual.data());
}

}  // namespace

Status Session::set_bases(const BasisSet& bases) {
  Body& b = *body_;
  if (!b.closed.ok()) return b.closed;
  if (b.pending) return b.close({Code::invalid_argument, "set_bases called before wait"});
  try {
    Status mine;
    Result<Plan> fresh = Plan::make(b.plan.recipe(), descriptions(b.plan), b.plan.world(), bases);
    if (!fresh.ok()) mine = fresh.status();
    if (Status s = agree(b.transport, mine); !s.ok()) return s;
    if (Status s = compare_plans(b.transport, fresh.value(), b.step); !s.ok()) return s;

    // Into a second body first: an error on any rank leaves all as they were.
    Result<Codec> codec = Codec::open(b.codec.backend());
    std::unique_ptr<Body> next;
    if (codec.ok()) {
      next = std::make_unique<Body>(fresh.value(), b.transport, std::move(codec).value(), b.step);
      next->allocate();
      for (std::size_t i = 0; mine.ok() && i < b.states.size(); ++i)
        mine = move_residuals(next->codec, b.plan.tensors()[i], next->plan.tensors()[i], static_cast<int>(b.rank()), b.states[i],
                              next->states[i])
                   .at(b.plan.tensors()[i].name);
    } else {
      mine = codec.status();
    }
    if (Status s = agree(b.transport, mine); !s.ok()) return s;
    body_ = std::move(next);
    return {};
  } catch (const std::bad_alloc&) {
    return b.close({Code::out_of_memory, "no memory in set_bases"});
  }
}

}  // namespace gift
