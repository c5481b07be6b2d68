// gift inspect: what a file is and what is in it.
#include <memory>
#include <set>

#include "cli.hpp"
#include "gift/basis.hpp"
#include "gift/inspect.hpp"
#include "gift/recipe.hpp"
#include "gift/safetensors.hpp"

namespace gift::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool headers_only = false;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

void print_metadata(Context& context, const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with("layer:") && key != "gift.state") context.print("  " + one_line(key) + ": " + one_line(value) + "\n");
  }
}

/// A row for a table and the JSON alike. Data that cannot be read as numbers has a dash, and its reason in the JSON.
Status add_tensor(Context& context, const SafetensorsFile& file, const TensorInfo& info, bool statistics, Table& table) {
  auto& row = context.json.add_row();
  row.set("file", file.path()).set("kind", "tensor").set("tensor", info.name).set("dtype", info.dtype);
  row.set("shape", shape_text(info.shape)).set("elements", info.elements).set("bytes", info.end - info.begin);
  std::vector<std::string> cells = {info.name, info.dtype, shape_text(info.shape)};
  const Result<TensorStats> stats = statistics ? tensor_stats(file, info.name) : Status(Code::bad_file, "not asked for");
  if (stats.ok()) {
    row.set("amax", stats->amax)
        .set("rms", stats->rms)
        .set("zeros", stats->zeros)
        .set("nan", stats->nans)
        .set("inf", stats->infs);
    for (const double value : {stats->amax, stats->rms}) cells.push_back(format_real(value, 4));
    for (const std::int64_t count : {stats->zeros, stats->nans, stats->infs}) cells.push_back(std::to_string(count));
  } else if (stats.status().code() != Code::bad_file) {
    return stats.status();
  } else {
    if (statistics) row.set("note", stats.status().message());
    cells.insert(cells.end(), 5, "-");
  }
  const bool finite = !stats.ok() || stats->nans + stats->infs == 0;
  table.add(std::move(cells), finite ? Mark::none : Mark::bad);
  return {};
}

Status show_tensors(Context& context, const SafetensorsFile& file, bool statistics) {
  double bytes = 0;
  for (const TensorInfo& info : file.tensors()) bytes += static_cast<double>(info.end - info.begin);
  context.print(one_line(file.path()) + ": " + counted(file.tensors().size(), "tensor", "tensors") + ", " + format_bytes(bytes) +
                "\n");
  print_metadata(context, file.metadata());
  Table table({{"tensor"},
               {"dtype"},
               {"shape", Align::right},
               {"amax", Align::right},
               {"rms", Align::right},
               {"zeros", Align::right},
               {"NaN", Align::right},
               {"Inf", Align::right}});
  for (const TensorInfo& info : file.tensors()) {
    if (Status status = add_tensor(context, file, info, statistics, table); !status.ok()) return status;
  }
  if (!table.empty()) context.print(table);
  return {};
}

Status show_basis(Context& context, const std::string& path) {
  const Result<BasisSet> set = load_basis(path);
  if (!set.ok()) return set.status();
  context.print(one_line(path) + ": basis of " + counted(set->layers.size(), "layer", "layers") + ", hash " +
                to_string(set->hash()) + " (recomputed, agrees)\n");
  print_metadata(context, set->metadata);
  std::set<std::string> origins;
  Table table({{"layer"}, {"coordinates"}, {"U right", Align::right}, {"U left", Align::right}, {"hash", Align::right}});
  const auto side_text = [](const SideBasis& side) {
    return side.rank == 0 ? std::string("-") : std::to_string(side.dim) + " x " + std::to_string(side.rank);
  };
  for (const auto& [name, layer] : set->layers) {
    origins.insert(layer->source + ", step " + std::to_string(layer->step) + ", " + std::to_string(layer->samples) + " samples");
    table.add({name, std::string(geometry_name(layer->kind)) + " " + side_name(layer->side), side_text(layer->right),
               side_text(layer->left), to_string(layer->hash)});
    auto& row = context.json.add_row();
    row.set("file", path).set("kind", "basis").set("layer", name).set("coordinates", geometry_name(layer->kind));
    row.set("side", side_name(layer->side)).set("rank_right", layer->right.rank).set("rank_left", layer->left.rank);
    row.set("dim_right", layer->right.dim).set("dim_left", layer->left.dim).set("step", layer->step);
    row.set("samples", layer->samples).set("source", layer->source).set("hash", to_string(layer->hash));
  }
  for (const std::string& origin : origins) context.print("  from: " + one_line(origin) + "\n");
  if (!table.empty()) context.print(table);
  return {};
}

Status show_state(Context& context, const SafetensorsFile& file, bool statistics) {
  const Result<StateSummary> state = summarise_state(file);
  if (!state.ok()) return state.status();
  context.print(one_line(file.path()) + ": session state of rank " + std::to_string(state->rank) + " of " +
                std::to_string(state->world) + ", step " + std::to_string(state->step) + ", " +
                counted(state->tensors.size(), "tensor", "tensors") + "\n  seed: " + std::to_string(state->seed) +
                "\n  recipe: " + one_line(state->recipe_hash) + "\n  basis: " + one_line(state->basis_hash) + "\n");
  Table reduced({{"tensor"}, {"reduced", Align::right}, {"basis", Align::right}});
  for (const StateSummary::Tensor& tensor : state->tensors) {
    reduced.add({one_line(tensor.name), std::to_string(tensor.committed), tensor.basis.empty() ? "-" : one_line(tensor.basis)});
    auto& row = context.json.add_row();
    row.set("file", file.path()).set("kind", "state").set("tensor", tensor.name).set("reduced", tensor.committed);
    row.set("basis", tensor.basis).set("rank", state->rank).set("world", state->world).set("step", state->step);
  }
  if (!reduced.empty()) context.print(reduced);
  return file.tensors().empty() ? Status() : show_tensors(context, file, statistics);
}

Status show_recipe(Context& context, const std::string& path) {
  const Result<Recipe> recipe = load_recipe(path);
  if (!recipe.ok()) return recipe.status();
  const std::string text = to_toml(*recipe);
  context.print(one_line(path) + ": recipe with " + counted(recipe->rules.size(), "rule", "rules") + "\n" + text);
  context.json.add_row()
      .set("file", path)
      .set("kind", "recipe")
      .set("rules", static_cast<std::uint64_t>(recipe->rules.size()))
      .set("toml", text);
  return {};
}

Status show(Context& context, const std::string& path, bool statistics) {
  const Result<FileKind> kind = identify_file(path);
  if (!kind.ok()) return kind.status();
  if (*kind == FileKind::basis) return show_basis(context, path);
  if (*kind == FileKind::recipe) return show_recipe(context, path);
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  return *kind == FileKind::state ? show_state(context, *file, statistics) : show_tensors(context, *file, statistics);
}

/// Every file is shown, whatever is wrong with another.
int run(const Options& options, Context& context) {
  const Result<std::vector<std::string>> paths = expand_paths(options.files);
  if (!paths.ok()) return context.fail(paths.status());
  int code = exit_ok;
  bool printed = false;
  for (const std::string& path : *paths) {
    if (printed) context.print("\n");
    const Status status = show(context, path, !options.headers_only);
    printed = status.ok();
    if (!status.ok()) code = context.fail(status);
  }
  return code;
}

}  // namespace

Run add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "dumps, bases, session states, recipes; patterns and directories too")->required();
  app.add_flag("--no-statistics", options->headers_only, "read headers only: no amax, rms, counts");
  return [options](Context& context) { return run(*options, context); };
}

}  // namespace gift::cli
