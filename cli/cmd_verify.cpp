// gift verify: does this machine compute the bytes that the specification says? Also `--explain VALUE`: how one number rounds.
#include <chrono>

#include "cli.hpp"
#include "gift/verify.hpp"

namespace gift::cli {
namespace {

struct Options {
  VerifyOptions verify;
  double explain = 0;
  std::string format = "e4m3";
  std::int64_t seed = 1;
  bool explains = false;
};

int explain(Context& context, const Options& options) {
  const auto value = static_cast<float>(options.explain);
  const Result<std::string> text = explain_rounding(options.format, value);
  if (!text.ok()) return context.fail_usage(text.status().message());
  context.print(*text);
  context.json.add_row()
      .set("what", "explain")
      .set("format", options.format)
      .set("value", static_cast<double>(value))
      .set("text", *text);
  return exit_ok;
}

void print_report(Context& context, const VerifyReport& report) {
  Table table({{"what", Align::left}, {"against", Align::left}, {"compared", Align::right}, {"different", Align::right}});
  std::uint64_t compared = 0, different = 0;
  for (const VerifyRow& row : report.rows) {
    const bool good = row.compared > 0 && row.different == 0;
    table.add({row.what, row.against, format_count(row.compared), format_count(row.different)}, good ? Mark::good : Mark::bad);
    JsonRow& json = context.json.add_row();
    json.set("what", row.what).set("against", row.against).set("compared", row.compared).set("different", row.different);
    if (!row.first.empty()) json.set("first", row.first);
    compared += row.compared;
    different += row.different;
  }
  table.rule();
  table.add({"all", "", format_count(compared), format_count(different)});
  context.print("Device: " + report.backend + ", " + report.device + "\n");
  context.print(table);
}

int verdict(Context& context, const VerifyReport& report, double seconds) {
  for (const VerifyRow& row : report.rows) {
    if (row.different > 0) return context.fail_check(row.what + " differs from the " + row.against + ": " + row.first);
    if (row.compared == 0) return context.fail_check(row.what + ": nothing was compared");
  }
  if (!report.passed()) return context.fail_check("nothing was compared");
  context.print("Passed: every value that was compared is equal (" + format_seconds(seconds) + ").\n");
  return exit_ok;
}

int run(Context& context, Options& options) {
  if (options.explains) return explain(context, options);
  options.verify.seed = static_cast<std::uint64_t>(options.seed);
  const auto start = std::chrono::steady_clock::now();
  const Result<VerifyReport> report = verify(options.verify, context.progress());
  if (!report.ok()) return context.fail(report.status());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  context.json.top()
      .set("backend", report->backend)
      .set("device", report->device)
      .set("exhaustive", options.verify.exhaustive)
      .set("seconds", seconds)
      .set("passed", report->passed());
  print_report(context, *report);
  return verdict(context, *report, seconds);
}

}  // namespace

Run add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--backend", options->verify.backend, "cpu (the default path), ref (the scalar reference) or cuda")
      ->capture_default_str();
  auto* exhaustive = app.add_flag("--exhaustive", options->verify.exhaustive,
                                  "all 2^32 FP32 inputs of E4M3, E5M2 and E2M1 against the tables, instead of a cover");
  add_count(app, "--seed", options->seed, 0, "seed of the random inputs")->capture_default_str();
  auto* value =
      add_real(app, "--explain", options->explain, "say how this number rounds, instead of verifying")->excludes(exhaustive);
  app.add_option("--format", options->format, "the format for --explain")->capture_default_str()->needs(value);
  return [options, value](Context& context) -> int {
    options->explains = value->count() > 0;
    return run(context, *options);
  };
}

}  // namespace gift::cli
