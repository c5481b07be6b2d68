// The choice of geometry by layer.
#include "calibrate_choose.hpp"

#include <limits>

namespace gift {
namespace {

double squared_error(const PricedLayer& layer, int candidate) {
  const double rel =
      candidate < 0 ? layer.euclidean_rel_l2 : layer.candidates[static_cast<std::size_t>(candidate)].predicted_rel_l2;
  return rel * rel * layer.elements;
}

double bytes(const PricedLayer& layer, int candidate) {
  return candidate < 0 ? 0.0 : layer.candidates[static_cast<std::size_t>(candidate)].geometry_bytes;
}

struct Step {
  PricedLayer* layer = nullptr;
  int candidate = -1;
  double gain = 0, cost = 0;

  double per_byte() const { return cost > 0 ? gain / cost : std::numeric_limits<double>::infinity(); }
  bool better_than(const Step& other) const {
    if (other.layer == nullptr) return true;
    if (per_byte() != other.per_byte()) return per_byte() > other.per_byte();
    return gain > other.gain;
  }
};

}  // namespace

void choose_within(std::vector<PricedLayer>& layers, double budget_bytes) {
  for (double left = budget_bytes;;) {
    Step best;
    for (PricedLayer& layer : layers) {
      for (int k = 0; k < static_cast<int>(layer.candidates.size()); ++k) {
        const Step step = {&layer, k, squared_error(layer, layer.chosen) - squared_error(layer, k),
                           bytes(layer, k) - bytes(layer, layer.chosen)};
        if (step.gain > 0 && step.cost <= left && step.better_than(best)) best = step;
      }
    }
    if (best.layer == nullptr) return;
    best.layer->chosen = best.candidate;
    left -= best.cost;
  }
}

void choose_least_error(std::vector<PricedLayer>& layers) {
  for (PricedLayer& layer : layers) {
    for (int k = 0; k < static_cast<int>(layer.candidates.size()); ++k) {
      if (squared_error(layer, k) < squared_error(layer, layer.chosen)) layer.chosen = k;
    }
  }
}

}  // namespace gift
