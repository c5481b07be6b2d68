// The JSON of a safetensors header as events to tensors. Private; used by safetensors_header.cpp only.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gift/safetensors.hpp"
#include "text.hpp"

namespace gift {

/// Receives nlohmann's parser events. The parser keeps its own stack in memory and this class refuses anything deeper than the
/// format has, so nesting cannot exhaust the thread's stack; keys are seen one by one, so duplicates cannot hide. Every event
/// returns false to stop; `error` then says why.
class HeaderEvents {
 public:
  std::vector<TensorInfo> tensors;  ///< in the order of the file
  std::map<std::string, std::string> metadata;
  std::string error;

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("true or false"); }
  bool number_integer(std::int64_t value) {
    return value >= 0 ? number(static_cast<std::uint64_t>(value)) : unexpected(std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) { return number(value); }
  bool number_float(double, const std::string& text) { return unexpected(in_quotes(text)); }
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }
  bool start_object(std::size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& last_token, const nlohmann::json::exception& exception);

 private:
  enum class Where { outside, top, metadata, tensor, array };
  enum class Field { none, dtype, shape, offsets };

  bool fail(std::string message);
  /// Fails with what was found where, and what should be there.
  bool unexpected(const std::string& what);
  bool number(std::uint64_t value);
  bool tensor_key(const std::string& name);

  Where where_ = Where::outside;
  Field field_ = Field::none;
  bool pending_metadata_ = false;  // the key "__metadata__" was read, its object has not begun
  std::string metadata_key_;
  std::set<std::string> names_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<std::int64_t> offsets_;
};

}  // namespace gift
