// Telling files apart and summing them up.
#include "gift/inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gift/recipe.hpp"
#include "text.hpp"

namespace gift {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t piece_elems = 1 << 20;
constexpr const char* state_key = "gift.state";     // as Session::save writes it
constexpr const char* basis_format = "gift-basis";  // how the metadata "format" of a basis file begins

/// Text throughout, with the '=' that every setting of a recipe has.
bool looks_like_recipe(const std::string& text) {
  return text.find('\0') == std::string::npos && text.find('=') != std::string::npos && is_utf8(text);
}

std::uint64_t unsigned_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

const char* file_kind_name(FileKind kind) noexcept {
  constexpr std::array<const char*, 4> names = {"tensors", "basis", "session state", "recipe"};
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "unknown";
}

Result<FileKind> identify_file(const std::string& path) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (file.ok()) {
    const auto& metadata = file->metadata();
    if (metadata.contains(state_key)) return FileKind::state;
    const auto format = metadata.find("format");
    const bool basis = format != metadata.end() && format->second.starts_with(basis_format);
    return basis ? FileKind::basis : FileKind::tensors;
  }
  if (file.status().code() != Code::bad_file) return file.status();
  const Result<std::string> text = read_text_file(path);
  if (!text.ok() || !looks_like_recipe(*text)) return file.status();
  if (text->starts_with("<") || text->starts_with("{") || text->starts_with("version ")) return file.status();
  const Result<Recipe> recipe = parse_recipe(*text, path);
  if (!recipe.ok()) return recipe.status();
  return FileKind::recipe;
}

Result<TensorStats> tensor_stats(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  TensorStats stats;
  stats.elements = info != nullptr ? info->elements : 0;
  double energy = 0;
  std::int64_t begin = 0;
  do {  // once even for an empty tensor: what cannot be read is refused whatever its size
    const std::int64_t end = begin + std::min(piece_elems, stats.elements - begin);
    const Result<std::vector<float>> piece = file.read_rows_f32(name, stats.elements, 1, begin, end);
    if (!piece.ok()) return piece.status();
    for (const float value : *piece) {
      if (std::isnan(value)) ++stats.nans;
      if (std::isinf(value)) ++stats.infs;
      if (value == 0) ++stats.zeros;
      if (!std::isfinite(value)) continue;
      const double wide = static_cast<double>(value);
      stats.amax = std::max(stats.amax, std::abs(wide));
      energy += wide * wide;
    }
    begin = end;
  } while (begin < stats.elements);
  const std::int64_t finite = stats.elements - stats.nans - stats.infs;
  if (finite > 0) stats.rms = std::sqrt(energy / static_cast<double>(finite));
  return stats;
}

Result<StateSummary> summarise_state(const SafetensorsFile& file) {
  const auto bad = [&file](const std::string& why) { return Status(Code::bad_file, printable(file.path()) + ": " + why); };
  const auto text = file.metadata().find(state_key);
  if (text == file.metadata().end()) return bad("not a session state");
  const Json state = Json::parse(text->second, nullptr, false);
  if (!state.is_object()) return bad("its metadata 'gift.state' is not a JSON object");
  StateSummary summary;
  summary.world = static_cast<std::int64_t>(unsigned_at(state, "world"));
  summary.rank = static_cast<std::int64_t>(unsigned_at(state, "rank"));
  summary.step = unsigned_at(state, "step");
  summary.seed = unsigned_at(state, "seed");
  summary.basis_hash = text_at(state, "basis");
  summary.recipe_hash = text_at(state, "recipe");
  const auto tensors = state.find("tensors");
  if (tensors == state.end() || !tensors->is_object()) return bad("its metadata 'gift.state' names no tensors");
  for (const auto& [name, tensor] : tensors->items()) {
    if (!tensor.is_object()) return bad("its metadata 'gift.state': tensor " + in_quotes(name) + " is not an object");
    summary.tensors.push_back({name, unsigned_at(tensor, "committed"), text_at(tensor, "basis")});
  }
  return summary;
}

}  // namespace gift
