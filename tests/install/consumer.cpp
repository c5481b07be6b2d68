// What a user of the installed library might start with: a plan for one layer, and what it would send.
#include <cstdio>
#include <gift/gift.hpp>

int main() {
  const auto recipe = gift::parse_recipe("format = \"e4m3:block:128\"\n", "built in");
  if (!recipe.ok()) return std::fprintf(stderr, "%s\n", recipe.status().message().c_str()), 1;
  const auto plan = gift::Plan::make(*recipe, {{"layers.0.weight", {256, 512}, gift::Dtype::f32}}, 4, {});
  if (!plan.ok()) return std::fprintf(stderr, "%s\n", plan.status().message().c_str()), 1;
  std::printf("gift %s: %.0f bytes a rank instead of %.0f\n", gift::version(), plan->wire_bytes_per_rank(),
              plan->fp32_bytes_per_rank());
  return plan->wire_bytes_per_rank() < plan->fp32_bytes_per_rank() / 3 ? 0 : 1;
}
