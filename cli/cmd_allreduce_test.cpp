// gift allreduce-test: does the compressed all-reduce work between these ranks, how fast, how many bytes, how faithful? Habits
// and option letters of nccl-tests where they apply.
#include <cstdio>
#include <exception>

#include "allreduce_case.hpp"
#include "allreduce_table.hpp"
#include "cli.hpp"
#include "exact_inputs.hpp"
#include "gift/codec.hpp"
#include "mpi_library.hpp"
#include "rank_files.hpp"

namespace gift::cli {
namespace {

struct Options {
  std::int64_t min_bytes = 64 << 10, max_bytes = 4 << 20, factor = 2, iterations = 5, warmup = 1, check = 1;
  std::vector<std::int64_t> counts;
  std::vector<std::string> grads, formats;
  std::string layers, recipe_file, basis_file, geometry, backend = "cpu", op;
  std::int64_t expect_ranks = 0, timeout_s = 120;
  bool feedback = false;
};

/// A line of the table: what is reduced, and how it is called there.
struct Line {
  std::string layer;
  AllreduceCase work;
};

class AllreduceTest {
 public:
  AllreduceTest(Context& context, const Options& options, Transport& transport)
      : context_(context), options_(options), transport_(transport), grads_mode_(!options.grads.empty()) {}

  int run() {
    transport_.set_deadline(std::chrono::seconds(options_.timeout_s));
    const int world = transport_.size();
    if (options_.expect_ranks > 0 && options_.expect_ranks != world)
      return context_.fail_check("expected " + std::to_string(options_.expect_ranks) + " ranks, there are " +
                                 std::to_string(world));
    // Files are read rank by rank: all hear of an error on any before the first collective that depends on it.
    if (Status s = agree(transport_, prepare()); !s.ok()) return context_.fail(s);
    if (Status s = same_calls(); !s.ok()) return context_.fail(s);
    AllreduceTable table(context_, grads_mode_);
    table.explain(transport_, options_.backend, options_.iterations, options_.warmup);
    for (const Line& line : lines_) {
      const Result<AllreduceResult> result = run_line(line);
      if (!result.ok()) return context_.fail(result.status());
      const Result<Plan> plan = Plan::make(line.work.recipe, line.work.tensors, world, bases_);
      if (!plan.ok()) return context_.fail(plan.status());
      table.add(line.layer, format_text(plan.value()), coordinates_text(plan.value()), result.value());
    }
    table.print();
    const std::vector<std::string>& problems = table.problems();
    if (problems.empty()) return exit_ok;
    const std::string more = problems.size() > 1 ? " (and " + std::to_string(problems.size() - 1) + " more)" : "";
    return context_.fail_check(problems[0] + more);
  }

 private:
  Status prepare() {
    if (const Result<Codec> codec = Codec::open(options_.backend); !codec.ok()) return codec.status();
    if (!options_.basis_file.empty()) {
      Result<BasisSet> bases = load_basis(options_.basis_file);
      if (!bases.ok()) return bases.status();
      bases_ = std::move(bases).value();
    }
    Result<std::vector<Recipe>> recipes = make_recipes();
    if (!recipes.ok()) return recipes.status();
    return grads_mode_ ? prepare_grads(recipes.value()) : prepare_sweep(recipes.value());
  }

  /// Ranks that would make other numbers of calls would wait for each other: all of them learn who differs, and in what. (What is
  /// in a call, Session::open compares.)
  Status same_calls() {
    constexpr std::size_t fields = 4;
    constexpr const char* names[fields] = {"--iters", "--warmup_iters", "--check", "the number of lines (sizes and formats)"};
    const std::int64_t mine[fields] = {options_.iterations, options_.warmup, options_.check,
                                       static_cast<std::int64_t>(lines_.size())};
    std::vector<std::int64_t> all(fields * static_cast<std::size_t>(transport_.size()));
    std::vector<Bytes> recv;
    for (std::size_t rank = 0; rank < all.size() / fields; ++rank)
      recv.push_back(std::as_writable_bytes(std::span(all).subspan(rank * fields, fields)));
    if (Status s = transport_.all_gather(std::as_bytes(std::span(mine)), recv); !s.ok()) return s;
    for (std::size_t i = fields; i < all.size(); ++i)
      if (all[i] != all[i % fields])
        return {Code::mismatch, "rank " + std::to_string(i / fields) + ": " + names[i % fields] + " is " +
                                    std::to_string(all[i]) + ", rank 0 has " + std::to_string(all[i % fields])};
    return {};
  }

  /// One recipe from a file, or one for each format of --format.
  Result<std::vector<Recipe>> make_recipes() const {
    std::vector<Recipe> recipes;
    if (!options_.recipe_file.empty()) {
      Result<Recipe> recipe = load_recipe(options_.recipe_file);
      if (!recipe.ok()) return recipe.status();
      recipes.push_back(std::move(recipe).value());
    } else {
      for (const std::string& text : options_.formats) {
        Result<FormatSpec> format = parse_format(text);
        if (!format.ok()) return format.status();
        Recipe recipe;
        recipe.format = format.value();
        recipe.op = grads_mode_ ? ReduceOp::mean : ReduceOp::sum;
        recipe.error_feedback = options_.feedback;
        if (!grads_mode_) recipe.exempt_below = 0;
        if (Status s = set_geometry(recipe); !s.ok()) return s;
        recipes.push_back(recipe);
      }
    }
    for (Recipe& recipe : recipes) {
      if (options_.op == "sum") recipe.op = ReduceOp::sum;
      if (options_.op == "mean") recipe.op = ReduceOp::mean;
    }
    return recipes;
  }

  /// --geometry KIND, or without it the geometry of each layer of --basis: rules by name.
  Status set_geometry(Recipe& recipe) const {
    if (recipe.format.format == Format::fp32) return {};
    if (!options_.geometry.empty()) {
      const Result<GeometryKind> kind = parse_geometry(options_.geometry);
      if (!kind.ok()) return kind.status();
      if (*kind == GeometryKind::hadamard) recipe.geometry = {GeometryKind::hadamard, Side::right, 0, 0.5, 1.0, 0};
      if (*kind == GeometryKind::euclidean || *kind == GeometryKind::hadamard) return {};
      if (bases_.layers.empty()) return {Code::invalid_argument, "--geometry " + options_.geometry + " needs --basis FILE"};
    }
    for (const auto& [name, basis] : bases_.layers) {
      if (!options_.geometry.empty() && geometry_name(basis->kind) != options_.geometry)
        return {Code::invalid_argument,
                options_.basis_file + ": tensor '" + name + "' has a basis for " + geometry_name(basis->kind)};
      Rule rule;
      rule.match = name;
      rule.geometry = GeometrySpec{basis->kind, basis->side, std::max(basis->right.rank, basis->left.rank), 0.5, 1.0, 0};
      recipe.rules.push_back(rule);
    }
    return {};
  }

  AllreduceCase blank(const Recipe& recipe) const {
    AllreduceCase work;
    work.recipe = recipe;
    work.bases = bases_;
    work.backend = options_.backend;
    work.warmup = options_.warmup;
    work.iterations = options_.iterations;
    work.measure_error = options_.check > 0;
    return work;
  }

  /// Each tensor alone, and all together.
  Status prepare_grads(const std::vector<Recipe>& recipes) {
    Result<RankGradients> grads = load_rank(options_.grads, transport_.rank(), options_.layers);
    if (!grads.ok()) return grads.status();
    for (const Recipe& recipe : recipes) {
      AllreduceCase work = blank(recipe);
      work.compare_with_one_process = options_.check > 0;
      for (std::size_t i = 0; i < grads->tensors.size() && grads->tensors.size() > 1; ++i) {
        work.tensors = {grads->tensors[i]};
        work.inputs = {grads->values[i]};
        lines_.push_back({grads->tensors[i].name, work});
      }
      work.tensors = grads->tensors;
      work.inputs = grads->values;
      lines_.push_back({"all", work});
    }
    return {};
  }

  Status prepare_sweep(const std::vector<Recipe>& recipes) {
    std::vector<std::int64_t> counts = options_.counts;
    if (counts.empty())
      for (std::int64_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= options_.factor) {
        counts.push_back(std::max<std::int64_t>(bytes / 4, 1));
        if (bytes > options_.max_bytes / options_.factor) break;
      }
    for (const std::int64_t count : counts)
      for (const Recipe& recipe : recipes) {
        AllreduceCase work = blank(recipe);
        // Matrices like those of a model, where the count allows: rows of 1024 or 64 elements, else one row.
        const std::int64_t cols = count % 1024 == 0 ? 1024 : count % 64 == 0 ? 64 : std::max<std::int64_t>(count, 1);
        work.tensors = {{"gradient", {count / cols, cols}, Dtype::f32}};
        lines_.push_back({"", work});
      }
    return {};
  }

  /// A sweep's line runs twice: inputs with a known sum are timed and counted, noise gives RelL2. Inputs are made when they are
  /// needed.
  Result<AllreduceResult> run_line(const Line& line) {
    if (grads_mode_) return run_case(transport_, line.work);
    AllreduceCase exact = line.work, noise = line.work;
    const std::vector<std::int64_t>& shape = line.work.tensors[0].shape;
    const std::int64_t cols = shape[1], count = shape[0] * cols;
    const FormatSpec format = line.work.recipe.format;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] = exact_input(format, cols, i, transport_.rank(), transport_.size());
    exact.inputs = {values};
    exact.measure_error = false;
    const bool mean = exact.recipe.op == ReduceOp::mean && (transport_.size() & (transport_.size() - 1)) != 0;
    const bool countable = has_exact_inputs(format) && exact.recipe.geometry.kind == GeometryKind::euclidean && !mean;
    const float share = exact.recipe.op == ReduceOp::mean ? static_cast<float>(transport_.size()) : 1.0F;
    if (options_.check > 0 && countable)
      exact.count_wrong = [format, cols, share](std::size_t, const std::vector<float>& result) {
        return count_wrong(format, cols, result, share);
      };
    Result<AllreduceResult> result = run_case(transport_, exact);
    if (!result.ok() || options_.check == 0) return result;
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = noisy_input(i, transport_.rank());
    noise.inputs = {std::move(values)};
    noise.warmup = noise.iterations = 0;
    const Result<AllreduceResult> second = run_case(transport_, noise);
    if (!second.ok()) return second;
    result->rel_l2 = second->rel_l2;
    result->replicas_equal = result->replicas_equal && second->replicas_equal;
    result->vanished.insert(result->vanished.end(), second->vanished.begin(), second->vanished.end());
    return result;
  }

  Context& context_;
  const Options& options_;
  Transport& transport_;
  bool grads_mode_;
  BasisSet bases_;
  std::vector<Line> lines_;
};

/// What only this rank knows has to be said by this rank, whoever prints otherwise; then all ranks end.
int give_up(Context& context, Ranks& ranks, const std::string& why) {
  std::fprintf(stderr, "gift %s: rank %d: %s\n", context.command().c_str(), ranks.transport().rank(), one_line(why).c_str());
  ranks.transport().abort(Status(Code::internal, why));
  ranks.abort_all(exit_failed);
  return exit_failed;
}

int run_allreduce_test(Context& context, const Options& options) {
  Result<std::unique_ptr<Ranks>> ranks = Ranks::open();
  if (!ranks.ok()) return context.fail(ranks.status());
  Transport& transport = ranks.value()->transport();
  context.set_ranks(transport.rank(), transport.size());
  try {
    const int code = AllreduceTest(context, options, transport).run();
    if (code == exit_ok) return code;
    if (const Status s = context.save_report(); !s.ok()) return give_up(context, *ranks.value(), s.message());
    // A transport that broke on this rank has left others in the middle of something: end them too.
    if (const Status s = transport.barrier(); !s.ok()) return give_up(context, *ranks.value(), s.message());
    // All have failed alike. mpirun ends every rank once one exits with an error, so that one is rank 0: its code speaks for all.
    return context.speaks() ? code : exit_ok;
  } catch (const std::exception& error) {
    return give_up(context, *ranks.value(), error.what());
  }
}

}  // namespace

Run add_allreduce_test(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  add_size(app, "-b,--minbytes", o.min_bytes, "smallest gradient, FP32 bytes (64K)");
  add_size(app, "-e,--maxbytes", o.max_bytes, "largest gradient, FP32 bytes (4M)");
  add_count(app, "-f,--stepfactor", o.factor, 2, "from one size to the next (2)");
  add_sizes(app, "--count", o.counts, "numbers of elements, instead of a sweep");
  add_count(app, "-n,--iters", o.iterations, 1, "timed iterations (5)");
  add_count(app, "-w,--warmup_iters", o.warmup, 0, "iterations before them (1)");
  add_count(app, "-c,--check", o.check, 0, "1: count wrong elements and measure RelL2 (default); 0: do not");
  app.add_option("--grads", o.grads, "gradient dumps instead of a sweep: files, patterns or folders; each rank takes its own");
  app.add_option("--layers", o.layers, "with --grads: only tensors whose name matches this shell pattern");
  app.add_option("--recipe", o.recipe_file, "recipe (TOML) to follow");
  add_words(app, "--format", o.formats, "wire formats, such as e4m3, nvfp4, e4m3:row:sr (fp32,e4m3)");
  app.add_option("--geometry", o.geometry, "euclidean, hadamard, whiten or deflate; the last two need --basis");
  app.add_option("--basis", o.basis_file, "basis file of gift calibrate");
  app.add_option("--op", o.op, "sum or mean (sum in a sweep, mean with --grads)")->check(CLI::IsMember({"sum", "mean"}));
  app.add_flag("--feedback", o.feedback, "with error feedback");
  app.add_option("--backend", o.backend, "cpu, ref or cuda")->capture_default_str();
  add_count(app, "--expect-ranks", o.expect_ranks, 1, "fail unless there are so many ranks");
  add_count(app, "--timeout", o.timeout_s, 1, "seconds to wait for a rank before giving up (120)");
  return [options](Context& context) -> int {
    Options& given = *options;
    if (given.min_bytes < 1) return context.fail_usage("--minbytes: 0 bytes never grow to the largest size; 4 is one element");
    if (given.check > 1) return context.fail_usage("--check: " + std::to_string(given.check) + " is not 0 or 1");
    if (given.min_bytes > given.max_bytes)
      return context.fail_usage("--minbytes " + std::to_string(given.min_bytes) + " is more than --maxbytes " +
                                std::to_string(given.max_bytes));
    if (!given.recipe_file.empty() && (!given.formats.empty() || !given.geometry.empty()))
      return context.fail_usage("--recipe says format and geometry: leave --format and --geometry out");
    if (given.grads.empty() && (!given.basis_file.empty() || !given.layers.empty()))
      return context.fail_usage("--basis and --layers go with --grads");
    if (!given.grads.empty() && !given.counts.empty()) return context.fail_usage("--grads or --count, not both");
    if (given.formats.empty()) given.formats = {"fp32", "e4m3"};
    for (const std::string& format : given.formats)
      if (const auto parsed = parse_format(format); !parsed.ok())
        return context.fail_usage("--format: " + parsed.status().message());
    if (!given.geometry.empty())
      if (const auto parsed = parse_geometry(given.geometry); !parsed.ok())
        return context.fail_usage("--geometry: " + parsed.status().message());
    return run_allreduce_test(context, given);
  };
}

}  // namespace gift::cli
