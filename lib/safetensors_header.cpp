// From a header's text to tensors whose every byte is known to lie inside the file.
#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "safetensors_json.hpp"
#include "text.hpp"

namespace gift {
namespace {

struct DtypeRow {
  const char* name;
  int bits;
};

/// The published list, C64 being two F32.
constexpr std::array<DtypeRow, 22> dtype_rows = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

std::string at_tensor(const TensorInfo& tensor, const std::string& message) {
  return "tensor " + in_quotes(tensor.name) + ": " + message;
}

std::string range_text(const TensorInfo& tensor) {
  return "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
}

Status check_tensor(TensorInfo& tensor, std::int64_t data_bytes) {
  const auto bad = [&tensor](const std::string& message) { return Status(Code::bad_file, at_tensor(tensor, message)); };
  Result<TensorSize> size = safetensors_size(tensor.dtype, tensor.shape);
  if (!size.ok()) return bad(size.status().message());
  tensor.elements = size->elements;
  if (tensor.begin > tensor.end) return bad("data_offsets " + range_text(tensor) + " end before they begin");
  if (tensor.end > data_bytes) {
    return bad("data_offsets " + range_text(tensor) + " reach beyond the file's " + std::to_string(data_bytes) +
               " data bytes: the file is cut short or damaged");
  }
  if (tensor.end - tensor.begin != size->bytes) {
    return bad("data_offsets " + range_text(tensor) + " hold " + std::to_string(tensor.end - tensor.begin) +
               " bytes, but shape and " + tensor.dtype + " need " + std::to_string(size->bytes));
  }
  return {};
}

/// The format wants the data section covered exactly once.
Status check_cover(const std::vector<TensorInfo>& tensors, std::int64_t data_bytes) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::int64_t covered = 0;
  const TensorInfo* last = nullptr;
  for (const TensorInfo* tensor : order) {
    if (tensor->begin > covered) {
      return Status(Code::bad_file,
                    at_tensor(*tensor, "begins at data byte " + std::to_string(tensor->begin) + ", but bytes from " +
                                           std::to_string(covered) + " on belong to no tensor"));
    }
    if (tensor->begin < covered) {
      return Status(Code::bad_file, at_tensor(*tensor, "data_offsets " + range_text(*tensor) + " overlap tensor " +
                                                           in_quotes(last->name) + " " + range_text(*last)));
    }
    if (tensor->end > covered) last = tensor;
    covered = tensor->end;
  }
  if (covered != data_bytes) {
    return Status(Code::bad_file, std::to_string(data_bytes - covered) + " bytes at the end of the file belong to no tensor");
  }
  return {};
}

bool starts_with_no_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), [](char want, char got) {
           return want == static_cast<char>(std::tolower(static_cast<unsigned char>(got)));
         });
}

}  // namespace

std::optional<int> safetensors_dtype_bits(std::string_view dtype) noexcept {
  for (const DtypeRow& row : dtype_rows) {
    if (dtype == row.name) return row.bits;
  }
  return std::nullopt;
}

const std::vector<std::string>& safetensors_dtypes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const DtypeRow& row : dtype_rows) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

Result<TensorSize> safetensors_size(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  const std::optional<int> bits = safetensors_dtype_bits(dtype);
  if (!bits) {
    return Status(Code::bad_file, "dtype " + in_quotes(dtype) + " is not one of the format's: " + joined(safetensors_dtypes()));
  }
  std::int64_t product = 1;  // of the extents that are not zero
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return Status(Code::bad_file, "shape holds " + std::to_string(extent));
    empty = empty || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(product, extent, &product)) {
      return Status(Code::bad_file, "the product of its shape does not fit 63 bits");
    }
  }
  std::int64_t total_bits = 0;
  if (__builtin_mul_overflow(product, static_cast<std::int64_t>(*bits), &total_bits)) {
    return Status(Code::bad_file, "the size of its shape in bits does not fit 63 bits");
  }
  if (empty) return TensorSize{};
  if (total_bits % 8 != 0) {
    return Status(Code::bad_file, std::to_string(product) + " elements of " + std::string(dtype) + " (" + std::to_string(*bits) +
                                      " bits each) do not fill whole bytes");
  }
  return TensorSize{product, total_bits / 8};
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::int64_t data_bytes) {
  if (json.empty() || json.front() != '{') return Status(Code::bad_file, "the header does not begin with '{'");
  if (const std::size_t nul = json.find('\0'); nul != std::string_view::npos) {  // the parser would take it for the end
    return Status(Code::bad_file, "the header is not valid JSON (byte " + std::to_string(nul + 1) + " of it)");
  }
  HeaderEvents events;
  const bool parsed = nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  if (!parsed) return Status(Code::bad_file, events.error.empty() ? "the header is not valid JSON" : events.error);

  SafetensorsHeader header;
  header.tensors = std::move(events.tensors);
  header.metadata = std::move(events.metadata);
  for (TensorInfo& tensor : header.tensors) {
    if (Status status = check_tensor(tensor, data_bytes); !status.ok()) return status;
  }
  if (Status status = check_cover(header.tensors, data_bytes); !status.ok()) return status;
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return header;
}

std::string recognise_other_file(std::string_view beginning) {
  if (beginning.starts_with("version https://git-lfs")) {
    return "is a Git LFS pointer, not the data it stands for (fetch it with 'git lfs pull')";
  }
  std::string_view text = beginning;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  if (starts_with_no_case(text, "<!doctype") || starts_with_no_case(text, "<html") || starts_with_no_case(text, "<?xml")) {
    return "is a web page, not a tensor file: the download went wrong";
  }
  if (text.starts_with("{\"") || text.starts_with("{\n") || text.starts_with("{ ") || text.starts_with("{}"))
    return "is JSON text (an index or an error message?), not a tensor file";
  if (beginning.starts_with("PK\x03\x04")) return "is a zip archive (a PyTorch or NumPy file?), not safetensors";
  if (beginning.starts_with("\x93NUMPY")) return "is a NumPy array, not safetensors";
  if (beginning.starts_with("GGUF")) return "is a GGUF file, not safetensors";
  if (beginning.starts_with("\x89HDF")) return "is an HDF5 file, not safetensors";
  if (beginning.starts_with("\x1f\x8b")) return "is gzip-compressed; uncompress it first";
  return "";
}

}  // namespace gift
