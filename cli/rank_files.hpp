// Which gradient dumps belong to which rank, and what is in them.
#pragma once

#include <string>
#include <vector>

#include "gift/plan.hpp"
#include "gift/status.hpp"

namespace gift::cli {

/// One rank's gradients from its dumps, in order of name; FP32, as matrices of the files' shapes.
struct RankGradients {
  std::vector<std::string> files;
  std::vector<TensorDesc> tensors;
  std::vector<std::vector<float>> values;
};

/// The files of `rank`: those whose metadata ("rank") or name (".rankN.", "-rankN") says so; if none of the files says a rank,
/// the file at this place of the sorted list. `layers`: shell patterns over tensor names, empty for all. A name in two files is
/// an error.
Result<RankGradients> load_rank(const std::vector<std::string>& patterns, int rank, const std::string& layers);

}  // namespace gift::cli
