// Any bytes as a recipe: refused with one line that has a place in it, or its canonical text is a fixed point.
#include "fuzz.hpp"
#include "gift/recipe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gift;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto recipe = parse_recipe(text, "fuzz");
  if (!recipe.ok()) {
    fuzz::require_refusal(recipe.status(), "fuzz:");
    return 0;
  }
  const std::string canonical = to_toml(*recipe);
  const auto again = parse_recipe(canonical, "canonical");
  fuzz::require(again.ok(), "canonical text parses", again.status().message() + "\n" + canonical);
  fuzz::require(*again == *recipe, "canonical text means the same", canonical);
  fuzz::require(to_toml(*again) == canonical, "canonical text is a fixed point", canonical);
  for (const char* name : {"layers.1.fc2.weight", "model.embed_tokens.weight", "wte", ""}) {
    const Choice choice = choose(*recipe, name, {256, 256});
    fuzz::require(validate(choice.format).ok(), "a valid format for every tensor", canonical);
    fuzz::require(!choice.exempt || choice.geometry.kind == GeometryKind::euclidean, "exempt tensors are euclidean", canonical);
  }
  return 0;
}
