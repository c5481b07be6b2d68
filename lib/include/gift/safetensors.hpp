// safetensors files: reading as if hostile, writing so that a crash loses nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gift/export.hpp"
#include "gift/format.hpp"
#include "gift/status.hpp"

namespace gift {

/// Every dtype of the published format; only those with a Dtype (F32, BF16, F16) and F64 can be read as numbers.
struct TensorInfo {
  std::string name;
  std::string dtype;  ///< as in the file: "F32", "BF16", "F8_E4M3", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< bytes from the start of the data section
  std::int64_t elements = 0;
};

/// An opened file: its header is parsed and every bound checked; data is read on demand. Copyable, shares the descriptor.
/// Thread-safe reads.
class GIFT_API SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  /// Parses bytes in memory (tests, fuzzing); `origin` stands for the path in messages. The bytes are copied.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& origin);

  const std::string& path() const noexcept;
  const std::vector<TensorInfo>& tensors() const noexcept;  ///< in order of name
  const TensorInfo* find(const std::string& name) const noexcept;
  const std::map<std::string, std::string>& metadata() const noexcept;

  /// Raw bytes of a tensor.
  Result<std::vector<std::byte>> read_bytes(const std::string& name) const;
  /// Values of an F32, BF16 or F16 tensor, widened exactly to FP32. F64 is rounded once. Other dtypes are refused by name;
  /// FP8 and FP4 with the hint that their scales are elsewhere.
  Result<std::vector<float>> read_f32(const std::string& name) const;
  /// Values of an F64 tensor, or of what read_f32 takes, widened.
  Result<std::vector<double>> read_f64(const std::string& name) const;
  /// Rows [begin, end) of a tensor seen as rows x cols (elements = rows * cols) as FP32, for bounded memory.
  Result<std::vector<float>> read_rows_f32(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t begin,
                                           std::int64_t end) const;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

/// A tensor to write: `bytes` little-endian in the file's dtype, its size checked against shape and dtype.
struct TensorOut {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Writes name-sorted tensors, data aligned to 8, via temporary file, fsync and rename: `path` is either the old file or the new
/// one. Equal input gives equal bytes. Refuses duplicate names and "__metadata__".
GIFT_API Status write_safetensors(const std::string& path, std::vector<TensorOut> tensors,
                                  const std::map<std::string, std::string>& metadata);

/// Writes any bytes the same crash-safe way.
GIFT_API Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
GIFT_API Result<std::string> read_text_file(const std::string& path);

/// Expands shell patterns (*, ?, [...]) and directories (their *.safetensors) to a sorted list without repeats. A pattern that
/// matches nothing is an error that names it.
GIFT_API Result<std::vector<std::string>> expand_paths(const std::vector<std::string>& patterns);

}  // namespace gift
