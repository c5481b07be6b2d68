// Opening safetensors files and reading tensors out of them, by pread and memcpy: any alignment, any size, no mapping.
#include "gift/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <stdexcept>

#include "file_io.hpp"
#include "safetensors_header.hpp"
#include "text.hpp"
#include "widen.hpp"

namespace gift {

static_assert(std::endian::native == std::endian::little, "tensor data is copied as it lies in the file, little-endian");

struct SafetensorsFile::Body {
  std::string path;
  FileDescriptor fd;             // of a file on disk; or
  std::vector<std::byte> bytes;  // a file in memory
  std::int64_t size_bytes = 0;
  std::int64_t data_begin = 0;
  SafetensorsHeader header;

  Status read_at(std::int64_t offset, std::span<std::byte> out) const {
    if (fd.get() >= 0) return read_exactly(fd.get(), offset, out, path);
    if (offset > size_bytes || static_cast<std::int64_t>(out.size()) > size_bytes - offset) {
      return Status(Code::internal, printable(path) + ": read beyond the end");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
    return {};
  }

  Status error(Code code, const std::string& message) const { return Status(code, printable(path) + ": " + message); }
  Status tensor_error(Code code, const std::string& name, const std::string& message) const {
    return error(code, "tensor " + in_quotes(name) + ": " + message);
  }

  Status parse();
  Status check_header_length(std::uint64_t length) const;
};

namespace {

constexpr std::int64_t prefix_bytes = 8;  // the header's length, 64 bits little-endian

/// Runs `read` and turns an allocation that fails into a Status: sizes come from files.
template <class Read>
auto guarded(const std::string& path, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, printable(path) + ": not enough memory to read it");
  } catch (const std::length_error&) {
    return Status(Code::out_of_memory, printable(path) + ": a tensor is larger than memory can be");
  }
}

template <class T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool is_number_dtype(const std::string& dtype) { return dtype == "F32" || dtype == "BF16" || dtype == "F16" || dtype == "F64"; }

std::vector<float> to_f32(const std::string& dtype, const std::vector<std::byte>& bytes, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  const std::byte* at = bytes.data();
  if (dtype == "F32") {
    if (elements > 0) std::memcpy(values.data(), at, bytes.size());
  } else if (dtype == "F64") {
    for (float& value : values) value = round_f64(load<double>(at)), at += 8;
  } else if (dtype == "BF16") {
    for (float& value : values) value = widen_bf16(load<std::uint16_t>(at)), at += 2;
  } else {
    for (float& value : values) value = widen_f16(load<std::uint16_t>(at)), at += 2;
  }
  return values;
}

/// The tensor that holds the scales of quantised tensor `name`, by the habits of those who write such files; null if none does.
const TensorInfo* companion_scale(const SafetensorsFile& file, const std::string& name) {
  for (const char* suffix : {"_scale_inv", "_scale", ".scale_inv", ".scale", "_scales", ".scales"}) {
    if (const TensorInfo* found = file.find(name + suffix); found != nullptr) return found;
  }
  return nullptr;
}

/// Why a tensor cannot be read as numbers; "" if it can.
std::string refusal(const SafetensorsFile& file, const TensorInfo& tensor) {
  if (is_number_dtype(tensor.dtype)) return "";
  const std::string dtype = tensor.dtype + " cannot be read as numbers (F32, BF16, F16 and F64 can)";
  const bool quantised = tensor.dtype.starts_with("F8_") || tensor.dtype.starts_with("F6_") || tensor.dtype.starts_with("F4");
  if (!quantised) return dtype;
  const TensorInfo* scale = companion_scale(file, tensor.name);
  if (scale == nullptr) return dtype + ": its codes mean nothing without their scales, and none are in this file";
  return dtype + ": its codes have to be multiplied by the scales in " + in_quotes(scale->name) + "; dump it dequantised";
}

}  // namespace

Status SafetensorsFile::Body::check_header_length(std::uint64_t length) const {
  const std::uint64_t room = static_cast<std::uint64_t>(size_bytes - prefix_bytes);
  const bool too_long = length > static_cast<std::uint64_t>(safetensors_header_limit_bytes);
  if (length >= 2 && length <= room && !too_long) return {};

  std::string beginning(static_cast<std::size_t>(std::min<std::int64_t>(size_bytes, 64)), '\0');
  if (Status status = read_at(0, std::as_writable_bytes(std::span(beginning))); !status.ok()) return status;
  if (const std::string other = recognise_other_file(beginning); !other.empty()) return error(Code::bad_file, other);

  const std::string says = "the first 8 bytes give a header of " + std::to_string(length) + " bytes";
  if (too_long) {
    return error(Code::bad_file, says + ", more than the format allows (" + std::to_string(safetensors_header_limit_bytes) +
                                     "): not a safetensors file");
  }
  if (length < 2) return error(Code::bad_file, says + ", which no safetensors file has");
  return error(Code::bad_file, says + ", but only " + std::to_string(room) + " follow: the file is cut short or not safetensors");
}

Status SafetensorsFile::Body::parse() {
  if (size_bytes < prefix_bytes) {
    const std::string size = size_bytes == 0 ? "is empty" : "has only " + std::to_string(size_bytes) + " bytes";
    return error(Code::bad_file, size + ", so it is not a safetensors file");
  }
  std::uint64_t length = 0;
  if (Status status = read_at(0, std::as_writable_bytes(std::span(&length, 1))); !status.ok()) return status;
  if (Status status = check_header_length(length); !status.ok()) return status;

  std::string json(static_cast<std::size_t>(length), '\0');
  if (Status status = read_at(prefix_bytes, std::as_writable_bytes(std::span(json))); !status.ok()) return status;
  data_begin = prefix_bytes + static_cast<std::int64_t>(length);
  Result<SafetensorsHeader> parsed = parse_safetensors_header(json, size_bytes - data_begin);
  if (!parsed.ok()) return error(parsed.status().code(), parsed.status().message());
  header = std::move(*parsed);
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  return guarded(path, [&]() -> Result<SafetensorsFile> {
    Result<OpenedFile> opened = open_regular_file(path);
    if (!opened.ok()) return opened.status();
    auto body = std::make_shared<Body>();
    body->path = path;
    body->fd = std::move(opened->fd);
    body->size_bytes = opened->size_bytes;
    if (Status status = body->parse(); !status.ok()) return status;
    SafetensorsFile file;
    file.body_ = std::move(body);
    return file;
  });
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& origin) {
  return guarded(origin, [&]() -> Result<SafetensorsFile> {
    auto body = std::make_shared<Body>();
    body->path = origin;
    body->bytes.assign(bytes.begin(), bytes.end());
    body->size_bytes = static_cast<std::int64_t>(bytes.size());
    if (Status status = body->parse(); !status.ok()) return status;
    SafetensorsFile file;
    file.body_ = std::move(body);
    return file;
  });
}

const std::string& SafetensorsFile::path() const noexcept { return body_->path; }
const std::vector<TensorInfo>& SafetensorsFile::tensors() const noexcept { return body_->header.tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept { return body_->header.metadata; }

const TensorInfo* SafetensorsFile::find(const std::string& name) const noexcept {
  const std::vector<TensorInfo>& all = body_->header.tensors;
  const auto at =
      std::lower_bound(all.begin(), all.end(), name, [](const TensorInfo& a, const std::string& b) { return a.name < b; });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

Result<std::vector<std::byte>> SafetensorsFile::read_bytes(const std::string& name) const {
  return guarded(body_->path, [&]() -> Result<std::vector<std::byte>> {
    const TensorInfo* tensor = find(name);
    if (tensor == nullptr) return body_->tensor_error(Code::invalid_argument, name, "is not in this file");
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor->end - tensor->begin));
    if (Status status = body_->read_at(body_->data_begin + tensor->begin, bytes); !status.ok()) return status;
    return bytes;
  });
}

Result<std::vector<float>> SafetensorsFile::read_f32(const std::string& name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) return body_->tensor_error(Code::invalid_argument, name, "is not in this file");
  return read_rows_f32(name, tensor->elements, 1, 0, tensor->elements);
}

Result<std::vector<float>> SafetensorsFile::read_rows_f32(const std::string& name, std::int64_t rows, std::int64_t cols,
                                                          std::int64_t begin, std::int64_t end) const {
  return guarded(body_->path, [&]() -> Result<std::vector<float>> {
    const TensorInfo* tensor = find(name);
    if (tensor == nullptr) return body_->tensor_error(Code::invalid_argument, name, "is not in this file");
    if (const std::string why = refusal(*this, *tensor); !why.empty()) return body_->tensor_error(Code::bad_file, name, why);
    std::int64_t elements = 0;
    const bool fits = rows >= 0 && cols >= 0 && !__builtin_mul_overflow(rows, cols, &elements) && elements == tensor->elements;
    if (!fits) {
      return body_->tensor_error(
          Code::invalid_argument, name,
          "has " + std::to_string(tensor->elements) + " elements, not " + std::to_string(rows) + " x " + std::to_string(cols));
    }
    if (begin < 0 || end < begin || end > rows) {
      return body_->tensor_error(Code::invalid_argument, name,
                                 "rows [" + std::to_string(begin) + ", " + std::to_string(end) + ") of " + std::to_string(rows));
    }
    const std::int64_t row_bytes = cols * (*safetensors_dtype_bits(tensor->dtype) / 8);
    std::vector<std::byte> bytes(static_cast<std::size_t>((end - begin) * row_bytes));
    const std::int64_t offset = body_->data_begin + tensor->begin + begin * row_bytes;
    if (Status status = body_->read_at(offset, bytes); !status.ok()) return status;
    return to_f32(tensor->dtype, bytes, (end - begin) * cols);
  });
}

Result<std::vector<double>> SafetensorsFile::read_f64(const std::string& name) const {
  return guarded(body_->path, [&]() -> Result<std::vector<double>> {
    const TensorInfo* tensor = find(name);
    const bool wide = tensor != nullptr && tensor->dtype == "F64";
    if (!wide) {
      Result<std::vector<float>> narrow = read_f32(name);
      if (!narrow.ok()) return narrow.status();
      std::vector<double> values(narrow->size());
      std::transform(narrow->begin(), narrow->end(), values.begin(), widen_f32);
      return values;
    }
    std::vector<double> values(static_cast<std::size_t>(tensor->elements));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
    if (Status status = body_->read_at(body_->data_begin + tensor->begin, bytes); !status.ok()) return status;
    return values;
  });
}

}  // namespace gift
