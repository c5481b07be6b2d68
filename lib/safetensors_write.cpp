// Writing safetensors files: equal tensors give equal bytes, and a crash at any moment leaves the old file or the new one.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "file_io.hpp"
#include "gift/safetensors.hpp"
#include "safetensors_header.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr std::size_t alignment_bytes = 8;

std::string as_json(const std::string& text) {
  return nlohmann::json(text).dump();
}  // throws unless UTF-8, which is checked before

Status check(const std::vector<TensorOut>& sorted, const std::map<std::string, std::string>& metadata) {
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const TensorOut& tensor = sorted[i];
    if (const std::string fault = name_fault(tensor.name); !fault.empty()) {
      return Status(Code::invalid_argument, "a tensor with " + fault);
    }
    const auto bad = [&tensor](const std::string& why) {
      return Status(Code::invalid_argument, "tensor " + in_quotes(tensor.name) + ": " + why);
    };
    if (tensor.name == "__metadata__") return bad("this name is reserved by the format");
    if (i > 0 && sorted[i - 1].name == tensor.name) return bad("two tensors have this name");
    Result<TensorSize> size = safetensors_size(tensor.dtype, tensor.shape);
    if (!size.ok()) return bad(size.status().message());
    if (size->bytes != static_cast<std::int64_t>(tensor.bytes.size())) {
      return bad(std::to_string(tensor.bytes.size()) + " bytes of data, but shape and " + tensor.dtype + " need " +
                 std::to_string(size->bytes));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) return Status(Code::invalid_argument, "metadata " + in_quotes(key) + " is not UTF-8");
  }
  return {};
}

/// Positions in `sorted` in the order in which data is laid down: wide elements first, then by name. The format allows no gaps,
/// so this is what keeps every tensor aligned to its own element.
std::vector<std::size_t> data_order(const std::vector<TensorOut>& sorted) {
  std::vector<std::size_t> order(sorted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&sorted](std::size_t a, std::size_t b) {
    return safetensors_dtype_bits(sorted[a].dtype) > safetensors_dtype_bits(sorted[b].dtype);
  });
  return order;
}

std::string header_text(const std::vector<TensorOut>& sorted, const std::vector<std::size_t>& order,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::size_t> begin(sorted.size());
  std::size_t offset = 0;
  for (const std::size_t i : order) {
    begin[i] = offset;
    offset += sorted[i].bytes.size();
  }
  std::string text = "{", comma;
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += comma + as_json(key) + ":" + as_json(value);
      comma = ",";
    }
    text += "}";
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    std::string shape;
    for (const std::int64_t extent : sorted[i].shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    text += comma + as_json(sorted[i].name) + ":{\"dtype\":\"" + sorted[i].dtype + "\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(begin[i]) + "," + std::to_string(begin[i] + sorted[i].bytes.size()) + "]}";
    comma = ",";
  }
  text += "}";
  text.append((alignment_bytes - text.size() % alignment_bytes) % alignment_bytes, ' ');
  return text;
}

}  // namespace

Status write_safetensors(const std::string& path, std::vector<TensorOut> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorOut& a, const TensorOut& b) { return a.name < b.name; });
  if (Status status = check(tensors, metadata); !status.ok()) return status.at(printable(path));
  const std::vector<std::size_t> order = data_order(tensors);
  const std::string text = header_text(tensors, order, metadata);
  if (static_cast<std::int64_t>(text.size()) > safetensors_header_limit_bytes) {
    return Status(Code::invalid_argument,
                  printable(path) + ": a header of " + std::to_string(text.size()) + " bytes is beyond the format");
  }

  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  const std::uint64_t length = text.size();
  if (Status status = file->write(std::as_bytes(std::span(&length, 1))); !status.ok()) return status;
  if (Status status = file->write(std::as_bytes(std::span(text))); !status.ok()) return status;
  for (const std::size_t i : order) {
    if (Status status = file->write(tensors[i].bytes); !status.ok()) return status;
  }
  return file->commit();
}

}  // namespace gift
