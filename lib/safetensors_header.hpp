// The JSON header of a safetensors file: parsed as if hostile, every bound checked before any tensor is seen. Private.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gift/safetensors.hpp"
#include "gift/status.hpp"

namespace gift {

inline constexpr std::int64_t safetensors_header_limit_bytes = 100'000'000;  ///< as the published format has it

/// Bits of one element of a published dtype; nothing for other words.
std::optional<int> safetensors_dtype_bits(std::string_view dtype) noexcept;
const std::vector<std::string>& safetensors_dtypes();

/// Elements and bytes of a shape, with checked arithmetic. Extents of zero do not hide an overflow in the others. Messages are
/// without file and tensor.
struct TensorSize {
  std::int64_t elements = 0, bytes = 0;
};
Result<TensorSize> safetensors_size(std::string_view dtype, const std::vector<std::int64_t>& shape);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in order of name
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON text and checks dtypes, shapes and offsets against a data section of `data_bytes`: in bounds, no overlap, no
/// hole, nothing left over. Messages are without the file's name.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::int64_t data_bytes);

/// What a file that is not safetensors is, judged by how it begins ("is a Git LFS pointer ..."); "" if it cannot be told.
std::string recognise_other_file(std::string_view beginning);

}  // namespace gift
