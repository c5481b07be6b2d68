// What a file is and what its tensors look like, in numbers; and cutting bases down. For tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gift/basis.hpp"
#include "gift/export.hpp"
#include "gift/safetensors.hpp"
#include "gift/status.hpp"

namespace gift {

/// The kinds of file that libgift reads.
enum class FileKind : std::uint8_t { tensors = 0, basis = 1, state = 2, recipe = 3 };
GIFT_API const char* file_kind_name(FileKind kind) noexcept;  ///< "tensors", "basis", "session state", "recipe"

/// Judged by content, never by name: a safetensors file by its metadata, else text that parses as a recipe. What is neither gets
/// the error of the reader that its beginning speaks for.
GIFT_API Result<FileKind> identify_file(const std::string& path);

/// Of the values of a tensor. NaN and Inf are counted and left out of the rest.
struct TensorStats {
  std::int64_t elements = 0;
  std::int64_t nans = 0, infs = 0, zeros = 0;
  double amax = 0;  ///< largest magnitude of the finite values
  double rms = 0;   ///< root of the mean square of the finite values; 0 if there are none
};

/// Reads a tensor piece by piece (4 MiB of memory). Refuses dtypes that are no numbers, as SafetensorsFile::read_f32 does.
GIFT_API Result<TensorStats> tensor_stats(const SafetensorsFile& file, const std::string& name);

/// What a session state says of itself (Session::save).
struct StateSummary {
  std::int64_t world = 0, rank = 0;
  std::uint64_t step = 0, seed = 0;
  std::string basis_hash, recipe_hash;  ///< hexadecimal, as in the fingerprint
  struct Tensor {
    std::string name;
    std::uint64_t committed = 0;  ///< how often it was reduced
    std::string basis;            ///< hash of its basis; empty without
  };
  std::vector<Tensor> tensors;  ///< by name
};
GIFT_API Result<StateSummary> summarise_state(const SafetensorsFile& file);

/// The same map with no more than `rank` columns a side: the leading ones, which are those of the largest eigenvalues. Whitening
/// gets new D and D', because the tail grows by what is cut. Sealed again, so the hash is new. A side with fewer columns stays.
GIFT_API Result<LayerBasisPtr> truncate_basis(const LayerBasis& layer, std::int32_t rank);

}  // namespace gift
