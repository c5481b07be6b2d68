// gift calibrate: dumps in, bases and a recipe out, and a table that says what each layer gets and why.
#include <cmath>
#include <filesystem>

#include "cli.hpp"
#include "gift/safetensors.hpp"

namespace gift::cli {
namespace {

struct Options {
  std::vector<std::string> files, geometries = {"deflate"};
  std::string source = "gradients", folder, basis, recipe, rank = "auto", side = "auto", format = "e4m3:block:128";
  double budget = 0.02, exponent = 0.5, damping = 1.0;
  std::string layers = "*", backend = "cpu";
  bool error_feedback = false;
};

const CLI::Validator one_of(std::vector<std::string> words) { return CLI::IsMember(std::move(words)); }

void add_options(CLI::App& app, const std::shared_ptr<Options>& o) {
  app.add_option("FILES", o->files, "safetensors dumps, patterns ('*', '?', '[...]') or directories")->required()->type_name("");
  app.add_option("--source", o->source,
                 "what the dumps hold: gradients (NAME, a matrix) or activations (NAME.input, NAME.output_grad)")
      ->check(one_of({"gradients", "activations"}))
      ->capture_default_str()
      ->type_name("WORD");
  app.add_option("-o,--output", o->folder, "write basis.safetensors and recipe.toml into DIR")->type_name("DIR");
  app.add_option("--basis", o->basis, "write the bases to FILE")->type_name("FILE");
  app.add_option("--recipe", o->recipe, "write the recipe to FILE")->type_name("FILE");
  app.add_option("--rank", o->rank,
                 "columns of U a side: auto (8, 16, 32 or 64 by layer, within the budget), or a number for all layers")
      ->capture_default_str()
      ->type_name("auto|R");
  add_percent(app, "--budget", o->budget, "bytes that geometry may add, in per cent of the payload without it [2%]");
  app.add_option("--format", o->format, "wire format of the recipe")->capture_default_str()->type_name("FORMAT");
  add_words(app, "--geometry", o->geometries, "coordinates to choose from: deflate, whiten, hadamard [deflate]");
  app.add_option("--side", o->side, "side that is mixed: right, left, both, or auto (all three; right with --rank R)")
      ->check(one_of({"auto", "right", "left", "both"}))
      ->capture_default_str()
      ->type_name("SIDE");
  add_real(app, "--exponent", o->exponent, "p of whiten [0.5]");
  add_real(app, "--damping", o->damping, "delta of whiten, relative to the mean eigenvalue [1]");
  app.add_option("--layers", o->layers, "only layers whose weight name matches PATTERN")
      ->capture_default_str()
      ->type_name("PATTERN");
  app.add_flag("--error-feedback", o->error_feedback, "switch error feedback on in the recipe");
  app.add_option("--backend", o->backend, "cpu, ref or cuda")->capture_default_str()->type_name("NAME");
}

/// The candidates that geometry, side, exponent and damping ask for.
Result<std::vector<GeometrySpec>> candidates_of(const Options& o, bool fixed_rank) {
  std::vector<Side> sides = {Side::right, Side::left, Side::both};
  if (o.side == "auto" && fixed_rank) sides = {Side::right};
  if (o.side != "auto") {
    const Result<Side> side = parse_side(o.side);
    if (!side.ok()) return side.status();
    sides = {*side};
  }
  std::vector<GeometrySpec> candidates;
  for (const std::string& word : o.geometries) {
    const Result<GeometryKind> kind = parse_geometry(word);
    if (!kind.ok()) return kind.status();
    if (*kind == GeometryKind::euclidean)
      return Status(Code::invalid_argument, "euclidean is what every layer has without a geometry");
    GeometrySpec spec;
    spec.kind = *kind;
    if (*kind == GeometryKind::whiten) {
      if (!(o.exponent > 0.0 && o.exponent <= 1.0))
        return Status(Code::invalid_argument, "--exponent must be above 0 and at most 1");
      if (!(o.damping >= 0.0)) return Status(Code::invalid_argument, "--damping must be 0 or more");
      spec.exponent = o.exponent;
      spec.damping = o.damping;
    }
    if (*kind == GeometryKind::hadamard) {
      spec.side = Side::right;
      candidates.push_back(spec);
      continue;
    }
    for (const Side side : sides) {
      spec.side = side;
      candidates.push_back(spec);
    }
  }
  return candidates;
}

/// What the command line says, as the library takes it.
Result<CalibrateOptions> library_options(const Options& o) {
  CalibrateOptions out;
  out.source = o.source == "activations" ? FactorSource::activations : FactorSource::gradients;
  out.backend = o.backend;
  if (o.rank != "auto") {
    const Result<std::int64_t> rank = parse_count(o.rank, 1);
    if (!rank.ok()) return rank.status().at("--rank");
    if (*rank > INT32_MAX) return Status(Code::invalid_argument, "--rank: " + o.rank + " is too large");
    out.rank = static_cast<std::int32_t>(*rank);
  }
  const Result<FormatSpec> format = parse_format(o.format);
  if (!format.ok()) return format.status().at("--format");
  out.format = *format;
  Result<std::vector<GeometrySpec>> candidates = candidates_of(o, out.rank > 0);
  if (!candidates.ok()) return candidates.status();
  out.candidates = *std::move(candidates);
  out.budget = o.budget;
  out.layers = o.layers;
  out.error_feedback = o.error_feedback;
  return out;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

std::string choice_text(const GeometrySpec& spec) {
  std::string text = geometry_name(spec.kind);
  if (spec.kind == GeometryKind::whiten || spec.kind == GeometryKind::deflate) {
    text += std::string(" ") + side_name(spec.side) + " r " + std::to_string(spec.rank);
  }
  return text;
}

std::string percent_text(double share) { return format_real(100.0 * share, 3) + " %"; }

Table factor_table(const CalibrationResult& result) {
  Table table({{"layer"},
               {"shape", Align::right},
               {"samples", Align::right},
               {"r 8", Align::right},
               {"r 16", Align::right},
               {"r 32", Align::right},
               {"r 64", Align::right},
               {"condition", Align::right}});
  for (const LayerReport& layer : result.layers) {
    std::vector<std::string> cells = {layer.name, shape_text(layer.shape), std::to_string(layer.samples)};
    for (const int rank : {8, 16, 32, 64}) {
      const auto kept = layer.energy_kept.find(rank);
      cells.push_back(kept == layer.energy_kept.end() ? "-" : percent_text(kept->second));
    }
    cells.push_back(layer.factor_rank > 0 ? format_real(layer.condition, 2) : "-");
    table.add(std::move(cells));
  }
  return table;
}

Table choice_table(const CalibrationResult& result) {
  Table table({{"layer"},
               {"choice"},
               {"bits", Align::right},
               {"predicted", Align::right},
               {"measured", Align::right},
               {"without", Align::right},
               {"clipped", Align::right}});
  for (const LayerReport& layer : result.layers) {
    table.add({layer.name, choice_text(layer.chosen.geometry), format_real(layer.bits_per_element, 3),
               format_real(layer.chosen.predicted_rel_l2, 3) + (layer.optimistic ? " optimistic" : ""),
               format_real(layer.measured, 3), format_real(layer.euclidean_rel_l2, 3),
               percent_text(layer.upper_clip + layer.lower_clip)});
  }
  return table;
}

/// Measured RelL2, formats across.
Table format_table(const CalibrationResult& result) {
  std::vector<Column> columns = {{"layer"}};
  for (const LayerReport& layer : result.layers) {
    if (layer.measured_rel_l2.empty()) continue;
    for (const auto& entry : layer.measured_rel_l2) columns.push_back({entry.first, Align::right});
    break;
  }
  Table table(columns);
  for (const LayerReport& layer : result.layers) {
    std::vector<std::string> cells = {layer.name};
    for (const auto& entry : layer.measured_rel_l2) cells.push_back(format_real(entry.second, 3));
    table.add(std::move(cells));
  }
  return table;
}

/// "e4m3:block:128" as a key.
std::string key_of(std::string format) {
  for (char& c : format) c = c == ':' ? '_' : c;
  return "rel_l2_" + format;
}

void add_rows(JsonReport& json, const CalibrationResult& result) {
  for (const LayerReport& layer : result.layers) {
    JsonRow& row = json.add_row();
    row.set("layer", layer.name).set("shape", shape_text(layer.shape)).set("samples", layer.samples);
    row.set("condition", layer.condition).set("factor_rank", layer.factor_rank);
    for (const auto& [rank, kept] : layer.energy_kept) row.set("energy_kept_r" + std::to_string(rank), kept);
    row.set("geometry", geometry_name(layer.chosen.geometry.kind)).set("side", side_name(layer.chosen.geometry.side));
    row.set("rank", layer.chosen.geometry.rank).set("energy_kept", layer.chosen.energy_kept);
    row.set("predicted_rel_l2", layer.chosen.predicted_rel_l2).set("optimistic", layer.optimistic);
    row.set("measured_rel_l2", layer.measured).set("euclidean_rel_l2", layer.euclidean_rel_l2);
    for (const auto& [format, error] : layer.measured_rel_l2) row.set(key_of(format), error);
    row.set("upper_clip", layer.upper_clip).set("lower_clip", layer.lower_clip);
    row.set("geometry_bytes", layer.chosen.geometry_bytes).set("bits_per_element", layer.bits_per_element);
    if (!layer.note.empty()) row.set("note", layer.note);
  }
}

void print_report(Context& context, const CalibrationResult& result, const Options& options) {
  context.print("Factors: how much of the energy the top directions of the input side hold (in sample).\n");
  context.print(factor_table(result));
  context.print(
      "\nChoice for " + options.format +
      ": RelL2 of one encode and decode, predicted on files left out,\nmeasured on the last file with a basis from the others,"
      " and without geometry.\nClipped: codes at either end of E4M3 with one scale a tensor.\n");
  context.print(choice_table(result));
  context.print("\nMeasured RelL2 in the chosen coordinates, by format.\n");
  context.print(format_table(result));
  bool first = true;
  for (const LayerReport& layer : result.layers) {
    if (layer.note.empty()) continue;
    context.print((first ? "\nNotes\n  " : "  ") + layer.name + ": " + layer.note + "\n");
    first = false;
  }
}

Status make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::io, folder + ": cannot make the directory: " + error.message()};
  return {};
}

int write_results(Context& context, const CalibrationResult& result, const Options& o) {
  if (!o.basis.empty()) {
    if (const Status s = save_basis(result.bases, o.basis); !s.ok()) return context.fail(s);
  }
  if (!o.recipe.empty()) {
    if (const Status s = save_recipe(result.recipe, o.recipe); !s.ok()) return context.fail(s);
  }
  const std::string hash = to_string(result.bases.hash());
  context.json.top().set("basis_hash", hash).set("bases", static_cast<std::int64_t>(result.bases.layers.size()));
  context.print("\nbasis hash " + hash + ", " + std::to_string(result.bases.layers.size()) + " of " +
                std::to_string(result.layers.size()) + " layers\n");
  if (!o.basis.empty()) context.print("bases   " + o.basis + "\n");
  if (!o.recipe.empty()) context.print("recipe  " + o.recipe + "\n");
  if (o.basis.empty() && o.recipe.empty()) context.print("nothing was written: give -o DIR, or --basis FILE and --recipe FILE\n");
  return exit_ok;
}

int run(Context& context, Options o) {
  const Result<CalibrateOptions> options = library_options(o);
  if (!options.ok()) return context.fail_usage(options.status().message());
  const Result<std::vector<std::string>> files = expand_paths(o.files);
  if (!files.ok()) return context.fail(files.status());
  if (!o.folder.empty()) {
    if (const Status s = make_folder(o.folder); !s.ok()) return context.fail(s);
    if (o.basis.empty()) o.basis = o.folder + "/basis.safetensors";
    if (o.recipe.empty()) o.recipe = o.folder + "/recipe.toml";
  }
  for (const std::string& path : {o.basis, o.recipe}) {
    if (const Status s = check_writable(path); !s.ok()) return context.fail(s);
  }
  CalibrateOptions library = *options;
  library.command = "gift calibrate";
  const Result<CalibrationResult> result = calibrate(*files, library, context.progress());
  if (!result.ok()) return context.fail(result.status());
  for (const std::string& warning : result->warnings) context.warn(warning);
  add_rows(context.json, *result);
  print_report(context, *result, o);
  return write_results(context, *result, o);
}

}  // namespace

Run add_calibrate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_options(app, options);
  return [options](Context& context) { return run(context, *options); };
}

}  // namespace gift::cli
