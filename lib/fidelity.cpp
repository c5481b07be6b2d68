// Fidelity: methods x formats on gradients that the bases have not seen. Calibrate on some files, encode and decode each gradient
// of the others once, compare.
#include "gift/fidelity.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <optional>
#include <set>

#include "fidelity_bases.hpp"
#include "gift/codec.hpp"
#include "gift/recipe.hpp"
#include "gift/safetensors.hpp"

namespace gift {
namespace {

constexpr std::int64_t least_elements =
    4096;  // smaller tensors are exempt by default (SPEC section 5): their figures would mislead

/// The same file under two names (links, relative paths) is the same file.
Status refuse_common_files(const std::vector<std::string>& calibrate, const std::vector<std::string>& test) {
  for (const auto& tested : test) {
    for (const auto& seen : calibrate) {
      std::error_code error;
      if (tested == seen || std::filesystem::equivalent(tested, seen, error)) {
        return {Code::invalid_argument, tested + ": is a calibration file too; bases are tested on files they have not seen"};
      }
    }
  }
  return {};
}

/// One gradient matrix of a test file.
struct TestMatrix {
  std::string file, name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

using MatrixKey = std::pair<std::string, std::string>;  // file and tensor

class Runner {
 public:
  Runner(const FidelityOptions& options, const Progress& progress)
      : options_(options), progress_(progress), bases_(options.backend, options.exact_limit) {}
  Result<FidelityResult> run();

 private:
  Status prepare();
  Status read_calibration();
  Status choose_methods();
  Status list_matrices(const SafetensorsFile& file, std::vector<TensorInfo>& matrices);
  Status test_file(const std::string& path);
  Status test_matrix(const TestMatrix& matrix);
  Status test_method(const TestMatrix& matrix, std::size_t method);
  Status test_format(const TestMatrix& matrix, std::size_t method, std::size_t format, const LayerBasisPtr& basis);
  std::set<MatrixKey> common_matrices();
  void add_overall();
  void tick(const std::string& what) {
    if (progress_) progress_(done_++, total_, what);
  }
  void warn(const std::string& message) {
    if (warned_.insert(message).second) result_.warnings.push_back(message);
  }
  void leave_out(const TestMatrix& matrix, const std::string& why) { warn(matrix.name + ": " + why + ", left out"); }

  const FidelityOptions& options_;
  const Progress& progress_;
  FidelityBases bases_;
  std::vector<FormatSpec> formats_;
  std::vector<Method> methods_;
  std::optional<Codec> codec_;
  std::vector<std::set<MatrixKey>> covered_;  // by method: what it has rows of
  std::set<MatrixKey> tested_;
  std::vector<std::pair<std::size_t, std::size_t>> row_origin_;  // method and format of each row
  std::set<std::string> warned_;
  FidelityResult result_;
  std::int64_t done_ = 0, total_ = 0;
};

Status Runner::prepare() {
  if (options_.test_files.empty()) return {Code::invalid_argument, "no test files were given"};
  if (auto status = refuse_common_files(options_.calibrate_files, options_.test_files); !status.ok()) return status;
  formats_ = options_.formats.empty() ? default_fidelity_formats() : options_.formats;
  for (const auto& format : formats_) {
    if (auto status = validate(format); !status.ok()) return status;
  }
  auto codec = Codec::open(options_.backend);
  if (!codec.ok()) return codec.status();
  codec_ = std::move(*codec);
  total_ = static_cast<std::int64_t>(options_.calibrate_files.size());
  return {};
}

Status Runner::read_calibration() {
  for (const auto& path : options_.calibrate_files) {
    tick(path);
    if (auto status = bases_.add_file(path); !status.ok()) return status;
  }
  for (const auto& warning : bases_.warnings()) warn(warning);
  return {};
}

/// The default methods shrink to what the calibration files can feed; methods that were asked for by name do not.
Status Runner::choose_methods() {
  const bool asked = !options_.methods.empty();
  auto methods = asked ? options_.methods : default_methods();
  if (!options_.ranks.empty()) methods = at_ranks(methods, options_.ranks);
  for (const auto& method : methods) {
    if (bases_.has(method.origin)) {
      methods_.push_back(method);
      continue;
    }
    const std::string why = method.label + ": no calibration file holds " + origin_name(method.origin);
    if (asked) return {Code::invalid_argument, why};
    warn(why + ", left out");
  }
  covered_.resize(methods_.size());
  return {};
}

Status Runner::list_matrices(const SafetensorsFile& file, std::vector<TensorInfo>& matrices) {
  std::int64_t matched = 0, small = 0;
  for (const auto& info : file.tensors()) {
    if (!name_matches(options_.layers, info.name)) continue;
    ++matched;
    if (is_activation(info.name)) {
      return {Code::invalid_argument, file.path() + ": " + info.name + " is an activation; test files hold gradients"};
    }
    if (info.shape.size() < 2 || info.elements < least_elements) {
      ++small;
    } else {
      matrices.push_back(info);
    }
  }
  const std::string limit = std::to_string(least_elements) + " elements";
  if (matrices.empty()) {
    return {Code::invalid_argument, file.path() + ": of " + std::to_string(file.tensors().size()) + " tensors " +
                                        std::to_string(matched) + " match '" + options_.layers +
                                        "', and none of those is a matrix of at least " + limit};
  }
  if (small > 0)
    warn(std::to_string(small) + " tensors that are vectors or under " + limit + " are not tested: they are exempt by default");
  return {};
}

Status Runner::test_file(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  std::vector<TensorInfo> matrices;
  if (auto status = list_matrices(*file, matrices); !status.ok()) return status;
  // The first file says how much there is to do; the others are taken to be alike.
  const std::size_t work = options_.calibrate_files.size() + options_.test_files.size() * matrices.size() * methods_.size();
  total_ = std::max(total_, static_cast<std::int64_t>(work));
  for (const auto& info : matrices) {
    auto values = file->read_f32(info.name);
    if (!values.ok()) return values.status();
    const TestMatrix matrix{path, info.name, info.shape, std::move(*values)};
    if (auto status = test_matrix(matrix); !status.ok()) return status.at(info.name).at(path);
  }
  return {};
}

Status Runner::test_matrix(const TestMatrix& matrix) {
  tested_.insert({matrix.file, matrix.name});
  const auto bad = std::find_if(matrix.values.begin(), matrix.values.end(), [](float x) { return !std::isfinite(x); });
  if (bad != matrix.values.end()) {
    leave_out(matrix, matrix.file + ": element " + std::to_string(bad - matrix.values.begin()) + " is " +
                          (std::isnan(*bad) ? "NaN" : "Inf"));
    return {};
  }
  for (std::size_t method = 0; method < methods_.size(); ++method) {
    tick(matrix.name + ": " + methods_[method].label);
    if (auto status = test_method(matrix, method); !status.ok()) return status.at(methods_[method].label);
  }
  return {};
}

Status Runner::test_method(const TestMatrix& matrix, std::size_t method) {
  LayerBasisPtr basis;
  if (methods_[method].origin != BasisOrigin::none) {
    auto made = bases_.get(matrix.name, matrix.shape, methods_[method], matrix.values);
    if (!made.ok()) {
      std::string why = made.status().message();
      if (why.starts_with(matrix.name + ": ")) why.erase(0, matrix.name.size() + 2);
      leave_out(matrix, methods_[method].label + ": " + why);
      return {};
    }
    basis = *made;
  }
  for (std::size_t format = 0; format < formats_.size(); ++format) {
    const bool plain = formats_[format].format == Format::fp32 || formats_[format].format == Format::bf16;
    if (plain && methods_[method].geometry.kind != GeometryKind::euclidean) continue;
    if (auto status = test_format(matrix, method, format, basis); !status.ok()) return status.at(to_string(formats_[format]));
  }
  return {};
}

Status Runner::test_format(const TestMatrix& matrix, std::size_t method, std::size_t format, const LayerBasisPtr& basis) {
  GeometrySpec geometry = methods_[method].geometry;
  if (geometry.kind == GeometryKind::hadamard && geometry.hadamard_block > 0) {
    // The nearest block that this matrix allows: halved until it divides the row.
    const auto view = matrix_view(matrix.shape, MatrixRule::automatic);
    if (!view.ok()) return view.status();
    while (view->cols % geometry.hadamard_block != 0) geometry.hadamard_block /= 2;
  }
  const TensorDesc tensor{matrix.name, matrix.shape, Dtype::f32};
  const auto plan = plan_tensor(tensor, formats_[format], geometry, basis, false, ReduceOp::mean, 1);
  if (!plan.ok()) return plan.status();
  std::vector<float> decoded(matrix.values.size());
  std::int64_t payload_bytes = 0;
  RoundingKey key;
  key.tensor_id = plan->id;
  EncodeStats stats;
  auto status = codec_->round_trip(*plan, matrix.values.data(), nullptr, decoded.data(), key, &stats, &payload_bytes);
  if (!status.ok()) return status;
  FidelityRow row;
  row.layer = matrix.name;
  row.file = matrix.file;
  row.coordinates = coordinates_name(plan->geometry);
  row.basis = origin_name(methods_[method].origin);
  row.side = side_name(plan->geometry.side);
  row.format = to_string(formats_[format]);
  row.rank = std::max(plan->rank_right(), plan->rank_left());
  row.bits_per_element = 8.0 * static_cast<double>(payload_bytes) / static_cast<double>(matrix.values.size());
  row.metrics = compare(matrix.values.data(), decoded.data(), static_cast<std::int64_t>(matrix.values.size()));
  result_.rows.push_back(std::move(row));
  row_origin_.emplace_back(method, format);
  covered_[method].insert({matrix.file, matrix.name});
  return {};
}

/// Sums over the rows that one overall row stands for.
struct Sums {
  double log_rel_l2 = 0, log_mse = 0, cosine = 0, max_err = 0, bits = 0, rows = 0;

  void add(const FidelityRow& row) {
    log_rel_l2 += std::log(row.metrics.rel_l2);  // log 0 = -Inf: one exact layer makes the geometric mean 0
    log_mse += std::log(row.metrics.mse);
    cosine += row.metrics.cosine;
    max_err = row.metrics.max_err > max_err || std::isnan(row.metrics.max_err) ? row.metrics.max_err : max_err;
    bits += row.bits_per_element;
    rows += 1;
  }
};

/// Methods are compared on the matrices that all of them have; a method that has none at all does not count.
std::set<MatrixKey> Runner::common_matrices() {
  std::set<MatrixKey> common = tested_;
  for (std::size_t method = 0; method < methods_.size(); ++method) {
    if (covered_[method].empty()) continue;
    std::erase_if(common, [&](const MatrixKey& key) { return !covered_[method].contains(key); });
  }
  if (const std::size_t lost = tested_.size() - common.size(); lost > 0) {
    warn(std::to_string(lost) + " of " + std::to_string(tested_.size()) +
         " matrices lack a row of some method and are no part of 'overall'");
  }
  return common;
}

void Runner::add_overall() {
  const auto common = common_matrices();
  result_.overall_matrices = static_cast<std::int64_t>(common.size());
  std::map<std::pair<std::size_t, std::size_t>, Sums> sums;
  for (std::size_t k = 0; k < row_origin_.size(); ++k) {
    const FidelityRow& row = result_.rows[k];
    if (common.contains({row.file, row.layer})) sums[row_origin_[k]].add(row);
  }
  for (const auto& [origin, sum] : sums) {
    const GeometrySpec& geometry = methods_[origin.first].geometry;
    FidelityRow row;
    row.layer = "overall";
    row.coordinates = coordinates_name(geometry);
    row.basis = origin_name(methods_[origin.first].origin);
    row.side = side_name(geometry.side);
    row.format = to_string(formats_[origin.second]);
    row.rank = geometry.rank;
    row.bits_per_element = sum.bits / sum.rows;
    row.metrics = {std::exp(sum.log_rel_l2 / sum.rows), sum.cosine / sum.rows, sum.max_err, std::exp(sum.log_mse / sum.rows)};
    result_.rows.push_back(std::move(row));
  }
}

Result<FidelityResult> Runner::run() {
  if (auto status = prepare(); !status.ok()) return status;
  if (auto status = read_calibration(); !status.ok()) return status;
  if (auto status = choose_methods(); !status.ok()) return status;
  for (const auto& path : options_.test_files) {
    if (auto status = test_file(path); !status.ok()) return status;
  }
  if (progress_) progress_(total_, total_, "done");
  if (result_.rows.empty()) return Status(Code::invalid_argument, "nothing could be tested: " + result_.warnings.front());
  add_overall();
  return std::move(result_);
}

}  // namespace

Result<FidelityResult> fidelity(const FidelityOptions& options, const Progress& progress) {
  try {
    return Runner(options, progress).run();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "fidelity: out of memory");
  }
}

}  // namespace gift
