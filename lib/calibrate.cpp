// Calibration from files to bases and a recipe: study each layer, choose within the budget, measure what was chosen.
#include "gift/calibrate.hpp"

#include <algorithm>
#include <filesystem>

#include "backend.hpp"
#include "calibrate_choose.hpp"
#include "calibrate_layer.hpp"
#include "text.hpp"

namespace gift {
namespace {

Result<std::vector<SafetensorsFile>> open_all(const std::vector<std::string>& paths) {
  if (paths.empty()) return Status(Code::invalid_argument, "no files to calibrate on");
  std::vector<SafetensorsFile> files;
  for (const std::string& path : paths) {
    Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  return files;
}

std::vector<std::string> all_layers(const std::vector<SafetensorsFile>& files, const CalibrateOptions& options) {
  std::vector<std::string> names;
  for (const SafetensorsFile& file : files) {
    for (const std::string& name : layer_names(file, options.source)) {
      if (name_matches(options.layers, name)) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Status check(const CalibrateOptions& options) {
  const auto bad = [](const std::string& text) { return Status(Code::invalid_argument, text); };
  if (const Status s = validate(options.format); !s.ok()) return s;
  if (options.format.format == Format::fp32) return bad("the format fp32 loses nothing: there is nothing to calibrate");
  if (options.rank < 0) return bad("rank " + std::to_string(options.rank) + " is negative");
  if (!(options.budget >= 0.0)) return bad("the budget must be 0 or more");
  if (options.exact_limit < 1) return bad("the limit of exact factors must be at least 1");
  for (const GeometrySpec& spec : options.candidates) {
    const bool needs_side = spec.kind == GeometryKind::whiten || spec.kind == GeometryKind::deflate;
    if (needs_side && spec.side == Side::none) return bad(std::string(geometry_name(spec.kind)) + " needs a side");
    if (spec.kind == GeometryKind::hadamard && has_left(spec.side)) return bad("hadamard mixes along the row (side right) only");
    if (spec.rank < 0) return bad("rank " + std::to_string(spec.rank) + " is negative");
  }
  return Status();
}

/// A pattern that matches one name and no other.
std::string literal_pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (c == '*' || c == '?' || c == '[') {
      pattern += std::string("[") + c + "]";
    } else {
      pattern += c;
    }
  }
  return pattern;
}

PricedLayer priced(const LayerStudy& layer, const FormatSpec& format) {
  PricedLayer out;
  out.elements = static_cast<double>(layer.rows) * static_cast<double>(layer.cols);
  out.payload_bytes = out.elements > 0 ? bits_per_element(format, layer.rows, layer.cols) * out.elements / 8.0 : 0.0;
  out.euclidean_rel_l2 = layer.euclidean_predicted;
  out.candidates = layer.candidates;
  return out;
}

/// Why a layer stayed as it was, though there were candidates.
std::string why_euclidean(const PricedLayer& layer, double budget_bytes, bool budgeted) {
  double cheapest = -1;
  for (const CandidateReport& c : layer.candidates) {
    if (c.predicted_rel_l2 < layer.euclidean_rel_l2 && (cheapest < 0 || c.geometry_bytes < cheapest)) cheapest = c.geometry_bytes;
  }
  if (cheapest < 0) return "no candidate lowers the predicted error";
  if (!budgeted) return "";
  return "over the budget: the cheapest gain is " + std::to_string(static_cast<std::int64_t>(cheapest)) +
         " bytes, the budget of all layers " + std::to_string(static_cast<std::int64_t>(budget_bytes));
}

std::string base_names(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : "\n") + std::filesystem::path(path).filename().string();
  return text;
}

/// Fills in what the choice decides, and adds basis and rule.
Status conclude(const CalibrationContext& context, const PricedLayer& price, LayerStudy& layer, CalibrationResult& result) {
  LayerReport& report = layer.report;
  report.chosen.predicted_rel_l2 = layer.euclidean_predicted;
  if (price.chosen >= 0) {
    const auto k = static_cast<std::size_t>(price.chosen);
    report.chosen = layer.candidates[k];
    if (layer.bases[k]) result.bases.layers[report.name] = layer.bases[k];
    Rule rule;
    rule.match = literal_pattern(report.name);
    rule.geometry = report.chosen.geometry;
    result.recipe.rules.push_back(std::move(rule));
  }
  if (price.elements > 0) {
    report.bits_per_element = 8.0 * (price.payload_bytes + report.chosen.geometry_bytes) / price.elements;
  }
  return measure(context, price.chosen, layer);
}

}  // namespace

Result<CalibrationResult> calibrate(const std::vector<std::string>& paths, const CalibrateOptions& options,
                                    const Progress& progress) {
  if (const Status s = check(options); !s.ok()) return s;
  const Result<Codec> codec = Codec::open(options.backend);
  if (!codec.ok()) return codec.status();
  const Result<std::vector<SafetensorsFile>> files = open_all(paths);
  if (!files.ok()) return files.status();
  CalibrationResult result;
  FormatError format_error(*codec, options.format);
  const CalibrationContext context = {options, *codec, backend_of(*codec).linalg(), *files, format_error, result.warnings};
  const std::vector<std::string> names = all_layers(*files, options);

  std::vector<LayerStudy> layers;
  std::vector<PricedLayer> prices;
  double payload_bytes = 0;
  bool any = false;
  const auto total = static_cast<std::int64_t>(names.size());
  for (const std::string& name : names) {
    if (progress) progress(static_cast<std::int64_t>(layers.size()), total, name);
    Result<LayerStudy> layer = study(context, name);
    if (!layer.ok()) return layer.status();
    any = any || layer->report.samples > 0;
    prices.push_back(priced(*layer, options.format));
    payload_bytes += prices.back().payload_bytes;
    layers.push_back(*std::move(layer));
  }
  if (!any) return no_layers(paths, options.source, options.layers, result.warnings);
  for (const SafetensorsFile& file : *files) {
    if (layer_names(file, options.source).empty()) {
      result.warnings.push_back(printable(file.path()) + ": holds no " + source_name(options.source));
    }
  }

  const double budget_bytes = options.budget * payload_bytes;
  if (options.rank > 0) {
    choose_least_error(prices);
  } else {
    choose_within(prices, budget_bytes);
  }
  result.recipe.format = options.format;
  result.recipe.error_feedback = options.error_feedback;
  std::int64_t step = -1;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    if (progress) progress(static_cast<std::int64_t>(k), total, "measuring " + layers[k].report.name);
    if (const Status s = conclude(context, prices[k], layers[k], result); !s.ok()) return s;
    if (prices[k].chosen < 0 && !layers[k].candidates.empty()) {
      const std::string why = why_euclidean(prices[k], budget_bytes, options.rank == 0);
      if (!why.empty()) add_note(layers[k].report, why);
    }
    step = std::max(step, layers[k].step);
    result.layers.push_back(std::move(layers[k].report));
  }
  if (progress) progress(total, total, "done");
  result.bases.metadata = {
      {"source", source_name(options.source)}, {"sources", base_names(paths)}, {"step", std::to_string(step)}};
  if (!options.command.empty()) result.bases.metadata["command"] = options.command;
  return result;
}

}  // namespace gift
