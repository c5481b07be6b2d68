// Calibration of one layer. Files are dealt to at most eight folds; each fold's gradients are looked at with the factors of the
// others, so a prediction never sees what the basis was made from.
#include "calibrate_layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan_internal.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr std::size_t most_folds = 8;

bool usable(const FactorStats& stats) { return stats.samples > 0 && stats.skipped.empty(); }

/// The geometries to price for a layer, by what was asked for.
std::vector<GeometrySpec> wanted_geometries(const CalibrateOptions& options, std::int64_t most) {
  std::vector<GeometrySpec> asked = options.candidates, out;
  if (asked.empty()) {
    for (const Side side : {Side::right, Side::left, Side::both}) {
      GeometrySpec spec;
      spec.kind = GeometryKind::deflate;
      spec.side = side;
      asked.push_back(spec);
    }
  }
  const auto add = [&](GeometrySpec spec, std::int32_t rank) {
    spec.rank = static_cast<std::int32_t>(std::min<std::int64_t>(rank, most));
    if (std::find(out.begin(), out.end(), spec) == out.end()) out.push_back(spec);
  };
  for (const GeometrySpec& spec : asked) {
    if (spec.kind == GeometryKind::euclidean) continue;
    if (spec.kind == GeometryKind::hadamard) {
      add(spec, 0);
    } else if (options.rank > 0 || spec.rank > 0) {
      add(spec, options.rank > 0 ? options.rank : spec.rank);
    } else {
      for (const std::int32_t rank : automatic_ranks) add(spec, rank);
    }
  }
  return out;
}

class Study {
 public:
  Study(const CalibrationContext& context, const std::string& name) : context_(context) { layer_.report.name = name; }

  Result<LayerStudy> run() {
    if (const Status s = gather(); !s.ok()) return s.at(layer_.report.name);
    if (total_.gradients == 0) {
      add_note(layer_.report, "no file has usable values");
      return std::move(layer_);
    }
    describe();
    if (layer_.rows == 0 || layer_.cols == 0) {
      add_note(layer_.report, std::string("the dumps have no ") + (layer_.rows == 0 ? "output_grad" : "input") +
                                  " for it, so its shape and its gradient are unknown");
      return std::move(layer_);
    }
    if (layer_.rows * layer_.cols < Recipe().exempt_below) {
      add_note(layer_.report, "exempt: " + std::to_string(layer_.rows * layer_.cols) + " elements, fewer than " +
                                  std::to_string(Recipe().exempt_below));
      return std::move(layer_);
    }
    if (const Status s = take_all_apart(); !s.ok()) return s.at(layer_.report.name);
    if (const Status s = hold_out(); !s.ok()) return s.at(layer_.report.name);
    if (const Status s = price(); !s.ok()) return s.at(layer_.report.name);
    return std::move(layer_);
  }

 private:
  /// First pass: second moments by fold.
  Status gather() {
    std::vector<std::size_t> holders;
    for (std::size_t f = 0; f < context_.files.size(); ++f) {
      const std::vector<std::string> names = layer_names(context_.files[f], context_.options.source);
      if (std::binary_search(names.begin(), names.end(), layer_.report.name)) holders.push_back(f);
    }
    folds_.resize(std::min(most_folds, holders.size()));
    total_.name = layer_.report.name;
    for (std::size_t k = 0; k < holders.size(); ++k) {
      const SafetensorsFile& file = context_.files[holders[k]];
      const auto sample = read_sample(file, layer_.report.name, context_.options.source, context_.warnings);
      if (!sample.ok()) return sample.status();
      if (!sample->has_value()) continue;
      LayerStats& fold = folds_[k % folds_.size()];
      fold.name = layer_.report.name;
      // Shapes are held against all files before, not only this fold's: with a limit of 0, nothing but counts and shapes is
      // added.
      if (Status s = add_sample(context_.linalg, **sample, 0, file.path(), total_); !s.ok()) return s;
      if (Status s = add_sample(context_.linalg, **sample, context_.options.exact_limit, file.path(), fold); !s.ok()) return s;
      if (!(*sample)->gradient.empty()) {
        fold_files_.push_back({holders[k], k % folds_.size()});
        layer_.last_file = static_cast<std::int64_t>(holders[k]);
      }
      layer_.step = std::max(layer_.step, step_of(file));
    }
    sum_folds(folds_.size(), total_.right, total_.left);
    layer_.rows = total_.rows;
    layer_.cols = total_.cols;
    return Status();
  }

  /// Sums of all folds but one, in order of folds.
  void sum_folds(std::size_t left_out, FactorStats& right, FactorStats& left) const {
    right = left = FactorStats();
    for (std::size_t f = 0; f < folds_.size(); ++f) {
      if (f == left_out) continue;
      add_moments(folds_[f].right, right);
      add_moments(folds_[f].left, left);
    }
  }

  static void add_moments(const FactorStats& from, FactorStats& to) {
    if (from.samples == 0) return;
    to.dim = from.dim;
    to.samples += from.samples;
    to.skipped = from.skipped;
    if (to.gram.empty()) {
      to.gram = from.gram;
    } else {
      for (std::size_t i = 0; i < to.gram.size(); ++i) to.gram[i] += from.gram[i];
    }
  }

  void describe() {
    LayerReport& report = layer_.report;
    report.shape = total_.shape;
    report.samples = total_.right.samples > 0 ? total_.right.samples : total_.left.samples;
    const auto seen = static_cast<std::size_t>(total_.gradients);
    if (seen < context_.files.size()) {
      add_note(report, "in " + std::to_string(seen) + " of " + std::to_string(context_.files.size()) + " files");
    }
    for (const auto& [stats, name] : {std::pair(&total_.right, "right"), std::pair(&total_.left, "left")}) {
      if (!stats->skipped.empty()) add_note(report, std::string(name) + ": " + stats->skipped);
      if (!usable(*stats)) continue;
      if (stats->samples < stats->dim) {
        add_note(report, std::string(name) + ": " + std::to_string(stats->samples) + " samples for dimension " +
                             std::to_string(stats->dim));
      }
      std::int64_t dead = 0;
      for (std::int64_t i = 0; i < stats->dim; ++i) dead += !(stats->gram[static_cast<std::size_t>(i * (stats->dim + 1))] > 0.0);
      if (dead > 0) {
        add_note(report, std::to_string(dead) + " of " + std::to_string(stats->dim) + " " +
                             (stats == &total_.right ? "columns" : "rows") + " always zero");
      }
    }
  }

  /// Eigenvectors that any candidate can need of a side: the largest rank asked for.
  std::int64_t most_vectors() const {
    std::int32_t most = 1;
    for (const GeometrySpec& spec : wanted_geometries(context_.options, std::min(layer_.rows, layer_.cols))) {
      most = std::max(most, spec.rank);
    }
    return most;
  }

  /// A side that cannot be factored is a side without candidates, and a note; never the end of the whole calibration.
  std::optional<FactorParts> take(const FactorStats& stats, const char* side) {
    if (!usable(stats)) return std::nullopt;
    Result<FactorParts> parts = take_apart(context_.linalg, stats.gram, stats.dim, stats.samples, most_vectors());
    if (parts.ok()) return *std::move(parts);
    add_note(layer_.report, std::string(side) + " falls back to euclidean: " + parts.status().message());
    return std::nullopt;
  }

  Status take_all_apart() {
    layer_.right = take(total_.right, "right");
    layer_.left = take(total_.left, "left");
    if (!layer_.right) return Status();
    LayerReport& report = layer_.report;
    report.factor_rank = layer_.right->factor_rank;
    if (report.factor_rank > 0) {
      report.condition = layer_.right->values.front() / layer_.right->values[static_cast<std::size_t>(report.factor_rank - 1)];
    }
    for (const std::int32_t rank : automatic_ranks) {
      double kept = 0;
      for (std::size_t j = 0; j < std::min<std::size_t>(static_cast<std::size_t>(rank), layer_.right->values.size()); ++j) {
        kept += layer_.right->values[j];
      }
      report.energy_kept[rank] = layer_.right->trace > 0 ? kept / layer_.right->trace : 0.0;
    }
    return Status();
  }

  /// Second pass: each fold's gradients against the factors of the others.
  Status hold_out() {
    std::size_t used_folds = 0;
    for (const LayerStats& fold : folds_) used_folds += fold.gradients > 0;
    layer_.report.optimistic = used_folds < 2;
    for (std::size_t f = 0; f < folds_.size(); ++f) {
      if (folds_[f].gradients == 0) continue;
      const bool has_gradient =
          std::any_of(fold_files_.begin(), fold_files_.end(), [&](const auto& entry) { return entry.second == f; });
      if (!has_gradient) continue;
      FactorStats right, left;
      sum_folds(layer_.report.optimistic ? folds_.size() : f, right, left);
      std::optional<FactorParts> right_parts = layer_.report.optimistic ? layer_.right : take(right, "right");
      std::optional<FactorParts> left_parts = layer_.report.optimistic ? layer_.left : take(left, "left");
      if (!layer_.right) right_parts.reset();
      if (!layer_.left) left_parts.reset();
      for (const auto& [file, fold] : fold_files_) {
        if (fold != f) continue;
        std::vector<std::string> said_before;  // this tensor was read once; it has been warned about
        const auto sample = read_sample(context_.files[file], layer_.report.name, context_.options.source, said_before);
        if (!sample.ok()) return sample.status();
        if (!sample->has_value()) {
          return Status(Code::io, printable(context_.files[file].path()) + ": changed while it was read");
        }
        held_.add((*sample)->gradient, layer_.rows, layer_.cols, right_parts ? &*right_parts : nullptr,
                  left_parts ? &*left_parts : nullptr);
        if (static_cast<std::int64_t>(file) == layer_.last_file) {
          layer_.fold_right = right_parts;
          layer_.fold_left = left_parts;
        }
      }
    }
    return Status();
  }

  Status price() {
    const Result<double> c = context_.format_error.at(layer_.cols);
    if (!c.ok()) return c.status();
    layer_.euclidean_predicted = *c;
    if (!(held_.total > 0)) {
      add_note(layer_.report, "all gradients are zero");
      return Status();
    }
    const bool embedding = keeps_left_off();
    for (const GeometrySpec& spec : wanted_geometries(context_.options, std::min(layer_.rows, layer_.cols))) {
      if (!has_left(spec.side) || !embedding) price_one(spec, *c);
    }
    return Status();
  }

  /// An embedding's rows come and go from step to step: the recipe's rule for it is asked, and takes the left side off.
  bool keeps_left_off() const {
    Recipe recipe;
    recipe.geometry.kind = GeometryKind::deflate;
    recipe.geometry.side = Side::left;
    recipe.geometry.rank = 1;
    return choose(recipe, layer_.report.name, layer_.report.shape).geometry.kind == GeometryKind::euclidean;
  }

  void price_one(const GeometrySpec& spec, double c) {
    CandidateReport report;
    report.geometry = spec;
    LayerBasisPtr basis;
    if (spec.kind == GeometryKind::whiten || spec.kind == GeometryKind::deflate) {
      if ((has_right(spec.side) && !layer_.right) || (has_left(spec.side) && !layer_.left)) return;  // noted before
      const Result<LayerBasisPtr> made =
          layer_basis(layer_.right ? &*layer_.right : nullptr, layer_.left ? &*layer_.left : nullptr, spec,
                      context_.options.source, layer_.step);
      if (!made.ok()) {
        add_note(layer_.report,
                 std::string(geometry_name(spec.kind)) + " " + side_name(spec.side) + ": " + made.status().message());
        return;
      }
      basis = *made;
      report.geometry.rank = std::max(basis->right.rank, basis->left.rank);
      const auto same = [&](const CandidateReport& other) { return other.geometry == report.geometry; };
      if (std::any_of(layer_.candidates.begin(), layer_.candidates.end(), same)) return;  // clipped to one that is there
    } else if (!hadamard_block(layer_.cols, spec.hadamard_block).ok()) {
      add_note(layer_.report, "hadamard: " + hadamard_block(layer_.cols, spec.hadamard_block).status().message());
      return;
    }
    const SharePrediction share = predict(held_, basis.get());
    report.energy_kept = share.kept;
    report.predicted_rel_l2 = c * std::sqrt(share.quantised * share.gain);
    report.geometry_bytes = geometry_bytes(basis.get(), layer_.rows, layer_.cols, context_.options.error_feedback);
    layer_.candidates.push_back(report);
    layer_.bases.push_back(std::move(basis));
  }

  const CalibrationContext& context_;
  LayerStudy layer_;
  LayerStats total_;
  std::vector<LayerStats> folds_;
  std::vector<std::pair<std::size_t, std::size_t>> fold_files_;  ///< file, fold
  HeldOut held_;
};

}  // namespace

void add_note(LayerReport& report, const std::string& sentence) {
  if (report.note.find(sentence) != std::string::npos) return;
  report.note += (report.note.empty() ? "" : "; ") + sentence;
}

Result<LayerStudy> study(const CalibrationContext& context, const std::string& name) { return Study(context, name).run(); }

Status measure(const CalibrationContext& context, int chosen, LayerStudy& layer) {
  LayerReport& report = layer.report;
  report.measured = report.euclidean_rel_l2 = std::numeric_limits<double>::quiet_NaN();
  if (layer.last_file < 0 || layer.rows == 0 || layer.cols == 0) return Status();
  std::vector<std::string> said_before;
  const auto sample =
      read_sample(context.files[static_cast<std::size_t>(layer.last_file)], report.name, context.options.source, said_before);
  if (!sample.ok()) return sample.status();
  if (!sample->has_value()) return Status(Code::io, report.name + ": its file changed while it was read");
  const std::vector<float>& gradient = (*sample)->gradient;
  const TensorDesc tensor = {report.name, report.shape, Dtype::f32};
  GeometrySpec spec;
  LayerBasisPtr basis;
  if (chosen >= 0) {
    spec = layer.candidates[static_cast<std::size_t>(chosen)].geometry;
    if (layer.bases[static_cast<std::size_t>(chosen)]) {
      const Result<LayerBasisPtr> made =
          layer_basis(layer.fold_right ? &*layer.fold_right : nullptr, layer.fold_left ? &*layer.fold_left : nullptr, spec,
                      context.options.source, layer.step);
      if (!made.ok()) {  // the other files alone do not give this basis
        add_note(report, "not measured: " + made.status().message());
        return Status();
      }
      basis = *made;
    }
  }
  const auto error_of = [&](const FormatSpec& format, const GeometrySpec& geometry, const LayerBasisPtr& used,
                            EncodeStats* stats) {
    return encode_error(context.codec, tensor, gradient, format, geometry, used, stats);
  };
  const FormatSpec own = context.options.format;
  std::vector<std::pair<std::string, FormatSpec>> formats;
  bool own_is_listed = false;
  for (const char* text : {"e4m3:tensor", "e4m3:block:128", "mxfp8", "nvfp4:row"}) {
    formats.push_back({text, *parse_format(text)});
    own_is_listed = own_is_listed || formats.back().second == own;
  }
  if (!own_is_listed) formats.push_back({to_string(own), own});
  for (const auto& [text, format] : formats) {
    const Result<double> error = error_of(format, spec, basis, nullptr);
    if (!error.ok()) return error.status();
    report.measured_rel_l2.push_back({text, *error});
    if (format == own) report.measured = *error;
  }
  const Result<double> plain = error_of(own, GeometrySpec{}, nullptr, nullptr);
  if (!plain.ok()) return plain.status();
  report.euclidean_rel_l2 = *plain;
  EncodeStats stats;
  if (const Result<double> e = error_of(formats[0].second, GeometrySpec{}, nullptr, &stats); !e.ok()) return e.status();
  report.upper_clip = static_cast<double>(stats.top_codes) / static_cast<double>(gradient.size());
  report.lower_clip = static_cast<double>(stats.bottom_codes) / static_cast<double>(gradient.size());
  return Status();
}

}  // namespace gift
