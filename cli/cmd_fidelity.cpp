// gift fidelity: how faithful formats and coordinates are on the user's own gradients.
#include <algorithm>
#include <span>

#include "cli.hpp"
#include "gift/fidelity.hpp"
#include "gift/safetensors.hpp"
#include "svg_plot.hpp"

namespace gift::cli {
namespace {

struct Options {
  std::vector<std::string> calibrate, test, formats, methods;
  std::vector<std::int32_t> ranks;
  std::string layers = "*", svg, backend = "cpu";
  bool per_layer = false;
};

/// A method as tables and the plot show it: one line for all its formats.
std::string method_of(const FidelityRow& row) {
  std::string text = row.coordinates;
  if (row.basis == "none") return text;
  const std::string rank = std::to_string(row.rank);
  text += " r " + rank + (row.side == "both" ? " + " + rank : "") + ", " + row.side;
  if (row.basis == "own") return text + ", own SVD (a bound)";
  return text + ", " + row.basis;
}

std::vector<const FidelityRow*> overall_rows(const FidelityResult& result) {
  std::vector<const FidelityRow*> rows;
  for (const auto& row : result.rows) {
    if (row.layer == "overall") rows.push_back(&row);
  }
  return rows;
}

/// In order of first appearance.
template <class Key>
std::vector<std::string> distinct(const std::vector<const FidelityRow*>& rows, Key key) {
  std::vector<std::string> values;
  for (const auto* row : rows) {
    if (std::find(values.begin(), values.end(), key(*row)) == values.end()) values.push_back(key(*row));
  }
  return values;
}

/// Methods down, formats across: RelL2.
Table summary_table(const std::vector<const FidelityRow*>& rows) {
  const auto formats = distinct(rows, [](const FidelityRow& row) { return row.format; });
  std::vector<Column> columns = {{"coordinates", Align::left}};
  for (const auto& format : formats) columns.push_back({format, Align::right});
  Table table(columns);
  for (const auto& method : distinct(rows, method_of)) {
    std::vector<std::string> cells = {method};
    for (const auto& format : formats) {
      const auto found = std::find_if(rows.begin(), rows.end(),
                                      [&](const auto* row) { return method_of(*row) == method && row->format == format; });
      cells.push_back(found == rows.end() ? "-" : format_real((*found)->metrics.rel_l2, 3));
    }
    table.add(std::move(cells));
  }
  return table;
}

/// Formats under each method: all four metrics.
Table metrics_table(const std::vector<const FidelityRow*>& rows) {
  Table table({{"coordinates, format"},
               {"bits/element", Align::right},
               {"RelL2", Align::right},
               {"1 - cosine", Align::right},
               {"max error", Align::right},
               {"MSE", Align::right}});
  std::string method;
  for (const auto* row : rows) {
    if (method_of(*row) != method) table.section(method = method_of(*row));
    const Metrics& m = row->metrics;
    table.add({"  " + row->format, format_real(row->bits_per_element, 4), format_real(m.rel_l2, 3), format_real(1 - m.cosine, 3),
               format_real(m.max_err, 3), format_real(m.mse, 3)});
  }
  return table;
}

void add_json(JsonReport& json, const FidelityResult& result) {
  for (const auto& row : result.rows) {
    auto& out = json.add_row();
    out.set("layer", row.layer).set("file", row.file).set("coordinates", row.coordinates).set("basis", row.basis);
    out.set("side", row.side).set("rank", row.rank).set("format", row.format).set("bits_per_element", row.bits_per_element);
    out.set("rel_l2", row.metrics.rel_l2)
        .set("cosine", row.metrics.cosine)
        .set("max_err", row.metrics.max_err)
        .set("mse", row.metrics.mse);
  }
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string plot_text(const std::vector<const FidelityRow*>& rows, const std::string& subtitle) {
  Plot plot;
  plot.title = "Error of one encode and decode against the bits it sends";
  plot.subtitle = subtitle;
  plot.x_label = "bits per element (scales, deflated coordinates and padding counted)";
  plot.y_label = "RelL2 = |decoded - gradient| / |gradient|";
  plot.kinds = distinct(rows, [](const FidelityRow& row) { return row.format; });
  for (const auto& method : distinct(rows, method_of)) {
    PlotSeries series{method, {}};
    for (const auto* row : rows) {
      if (method_of(*row) != method) continue;
      const auto kind =
          static_cast<std::size_t>(std::find(plot.kinds.begin(), plot.kinds.end(), row->format) - plot.kinds.begin());
      const std::string hint = method + ", " + row->format + ": " + format_real(row->metrics.rel_l2, 3) + " at " +
                               format_real(row->bits_per_element, 4) + " bits";
      series.points.push_back({row->bits_per_element, row->metrics.rel_l2, kind, hint});
    }
    std::stable_sort(series.points.begin(), series.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    plot.series.push_back(std::move(series));
  }
  return to_svg(plot);
}

/// Words and patterns become what the library takes.
Status read_options(const Options& options, FidelityOptions& out) {
  for (const auto& text : options.formats) {
    const auto format = parse_format(text);
    if (!format.ok()) return format.status();
    out.formats.push_back(*format);
  }
  for (const auto& text : options.methods) {
    if (text == "default" && options.methods.size() == 1) break;  // the same as saying nothing
    if (text == "default") {
      const auto rows = default_methods();
      out.methods.insert(out.methods.end(), rows.begin(), rows.end());
      continue;
    }
    const auto method = parse_method(text);
    if (!method.ok()) return method.status();
    out.methods.push_back(*method);
  }
  out.ranks = options.ranks;
  out.layers = options.layers;
  out.backend = options.backend;
  return {};
}

Status expand(const std::vector<std::string>& patterns, std::vector<std::string>& files) {
  if (patterns.empty()) return {};
  auto expanded = expand_paths(patterns);
  if (!expanded.ok()) return expanded.status();
  files = std::move(*expanded);
  return {};
}

std::string describe(const FidelityOptions& options, const FidelityResult& result) {
  const auto matrices = static_cast<std::size_t>(result.overall_matrices);
  return "geometric mean over " + counted(matrices, "matrix", "matrices") + " of " +
         counted(options.test_files.size(), "file", "files") + "; bases from " +
         counted(options.calibrate_files.size(), "other file", "other files");
}

void print_layers(Context& context, const FidelityResult& result) {
  std::vector<const FidelityRow*> rows;
  for (std::size_t k = 0; k < result.rows.size(); ++k) {
    const FidelityRow& row = result.rows[k];
    if (row.layer == "overall") break;  // these come last
    rows.push_back(&row);
    const bool last = k + 1 == result.rows.size() || result.rows[k + 1].layer != row.layer || result.rows[k + 1].file != row.file;
    if (!last) continue;
    context.print("\n" + row.layer + " of " + row.file + "\n\n");
    context.print(metrics_table(rows));
    rows.clear();
  }
}

int run_fidelity(const Options& options, Context& context) {
  FidelityOptions wanted;
  if (const Status status = read_options(options, wanted); !status.ok()) return context.fail_usage(status.message());
  if (const Status status = check_writable(options.svg); !status.ok()) return context.fail(status);
  if (const Status status = expand(options.calibrate, wanted.calibrate_files); !status.ok()) return context.fail(status);
  if (const Status status = expand(options.test, wanted.test_files); !status.ok()) return context.fail(status);
  const auto result = fidelity(wanted, context.progress());
  if (result.status().code() == Code::invalid_argument) return context.fail_usage(result.status().message());
  if (!result.ok()) return context.fail(result.status());
  for (const auto& warning : result->warnings) context.warn(warning);
  add_json(context.json, *result);
  context.json.top().set("overall_matrices", result->overall_matrices);
  const auto overall = overall_rows(*result);
  const std::string what = describe(wanted, *result);
  if (!overall.empty()) {
    context.print("RelL2 of one encode and decode, " + what + "\n\n");
    context.print(summary_table(overall));
    context.print("\nAll four metrics, overall\n\n");
    context.print(metrics_table(overall));
  }
  if (options.per_layer || overall.empty()) print_layers(context, *result);
  if (options.svg.empty()) return exit_ok;
  const std::string svg = plot_text(overall, what);
  const Status written = write_file_atomically(options.svg, std::as_bytes(std::span(svg)));
  return written.ok() ? exit_ok : context.fail(written);
}

}  // namespace

Run add_fidelity(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--test", options->test, "gradient dumps to test: safetensors files, patterns or folders")
      ->required()
      ->type_name("FILE");
  app.add_option("--calibrate", options->calibrate, "dumps to take bases from: gradients, activations or both")
      ->type_name("FILE");
  add_words(app, "--formats", options->formats, "bf16, e4m3:tensor, e4m3:block:128, mxfp8, nvfp4, ... (default: these)");
  add_words(app, "--methods", options->methods,
            "default, euclidean, hadamard:block=64, whiten:p=0.5:delta=1, deflate:left:rank=32, ...");
  add_counts(app, "--ranks", options->ranks, 1, "try every method that has a rank at each of these");
  app.add_option("--layers", options->layers, "test only tensors whose name matches this shell pattern")->type_name("PATTERN");
  app.add_flag("--per-layer", options->per_layer, "also print the four metrics of every layer");
  app.add_option("--svg", options->svg, "write a plot of error against bits per element")->type_name("FILE");
  app.add_option("--backend", options->backend, "what computes: cpu, ref or cuda")->type_name("NAME");
  return [options](Context& context) { return run_fidelity(*options, context); };
}

}  // namespace gift::cli
