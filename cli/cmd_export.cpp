// gift export: a basis file out of another: fewer layers, fewer columns.
#include <algorithm>
#include <memory>

#include "cli.hpp"
#include "gift/basis.hpp"
#include "gift/inspect.hpp"
#include "gift/recipe.hpp"

namespace gift::cli {
namespace {

struct Options {
  std::string basis, output, dtype = "f32";
  std::vector<std::string> layers;
  std::int64_t rank = 0;  // 0: as it is
};

/// The layers that some pattern matches; a pattern that matches none is an error.
Result<BasisSet> select(const BasisSet& set, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return set;
  BasisSet chosen;
  chosen.metadata = set.metadata;
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (const auto& [name, layer] : set.layers) {
      if (!name_matches(pattern, name)) continue;
      chosen.layers[name] = layer;
      matched = true;
    }
    if (!matched) return Status(Code::invalid_argument, "--layers '" + one_line(pattern) + "' matches no layer of the basis");
  }
  return chosen;
}

Status cut(BasisSet& set, std::int32_t rank) {
  for (auto& [name, layer] : set.layers) {
    Result<LayerBasisPtr> smaller = truncate_basis(*layer, rank);
    if (!smaller.ok()) return smaller.status().at("layer '" + name + "'");
    layer = *smaller;
  }
  return {};
}

std::string ranks_text(const LayerBasis& layer) {
  const std::string right = std::to_string(layer.right.rank), left = std::to_string(layer.left.rank);
  return layer.side == Side::both ? right + " + " + left : layer.side == Side::left ? left : right;
}

void report(Context& context, const Options& options, const BasisSet& before, const BasisSet& after) {
  Table table({{"layer"}, {"coordinates"}, {"rank", Align::right}, {"was", Align::right}, {"hash", Align::right}});
  for (const auto& [name, layer] : after.layers) {
    const LayerBasis& old = *before.layers.at(name);
    table.add({name, std::string(geometry_name(layer->kind)) + " " + side_name(layer->side), ranks_text(*layer), ranks_text(old),
               to_string(layer->hash)});
    auto& row = context.json.add_row();
    row.set("layer", name).set("coordinates", geometry_name(layer->kind)).set("side", side_name(layer->side));
    row.set("rank_right", layer->right.rank).set("rank_left", layer->left.rank).set("rank_right_before", old.right.rank);
    row.set("rank_left_before", old.left.rank).set("hash", to_string(layer->hash));
  }
  context.print(table);
  context.print(options.output + ": " + std::to_string(after.layers.size()) + " of " + std::to_string(before.layers.size()) +
                " layers, hash " + to_string(after.hash()) + "\n");
  context.json.top().set("basis", options.output).set("basis_hash", to_string(after.hash()));
}

int run(const Options& options, Context& context) {
  if (options.dtype == "bf16" || options.dtype == "f16") {
    return context.fail_usage("--dtype " + options.dtype + ": U must be FP32 and orthonormal to 1e-6, which " + options.dtype +
                              " cannot hold; a basis that ranks share is always f32");
  }
  if (options.dtype != "f32") return context.fail_usage("--dtype '" + options.dtype + "' is not f32, the only dtype of a basis");
  const Result<FileKind> kind = identify_file(options.basis);
  if (!kind.ok()) return context.fail(kind.status());
  if (*kind != FileKind::basis) {
    return context.fail(
        {Code::bad_file, options.basis + ": holds no bases (this is a file of the kind '" + file_kind_name(*kind) + "')"});
  }
  const Result<BasisSet> before = load_basis(options.basis);
  if (!before.ok()) return context.fail(before.status());
  Result<BasisSet> after = select(*before, options.layers);
  if (!after.ok()) return context.fail(after.status());
  if (options.rank > 0) {
    if (Status status = cut(*after, static_cast<std::int32_t>(std::min<std::int64_t>(options.rank, 1 << 30))); !status.ok())
      return context.fail(status.at(options.basis));
  }
  if (Status status = save_basis(*after, options.output); !status.ok()) return context.fail(status);
  report(context, options, *before, *after);
  return exit_ok;
}

}  // namespace

Run add_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--basis", options->basis, "the basis file to take from")->type_name("FILE")->required();
  app.add_option("-o,--output", options->output, "the basis file to write")->type_name("FILE")->required();
  add_words(app, "--layers", options->layers, "only the layers that match these patterns, such as *.fc1.weight");
  add_count(app, "--rank", options->rank, 1, "keep at most this many columns a side");
  app.add_option("--dtype", options->dtype, "f32 (what a basis must be)")->capture_default_str();
  return [options](Context& context) { return run(*options, context); };
}

}  // namespace gift::cli
