// The grammar of a safetensors header: {"NAME": {"dtype": text, "shape": [n...], "data_offsets": [begin, end]}, ...,
// "__metadata__": {text: text, ...}}.
#include "safetensors_json.hpp"

namespace gift {
namespace {

constexpr std::size_t dims_limit = 64;  // far more than any tensor has; bounds what a message or a caller must handle

}  // namespace

bool HeaderEvents::fail(std::string message) {
  if (error.empty()) error = std::move(message);
  return false;
}

bool HeaderEvents::unexpected(const std::string& what) {
  switch (where_) {
    case Where::outside:
      return fail("the header is " + what + ", not an object");
    case Where::top:
      if (pending_metadata_) return fail("__metadata__ is " + what + ", not an object");
      return fail("tensor " + in_quotes(tensors.back().name) + " is " + what + ", not an object");
    case Where::metadata:
      return fail("__metadata__ holds " + what + " under " + in_quotes(metadata_key_) + "; only text is allowed");
    case Where::tensor:
    case Where::array:
      break;
  }
  const std::string tensor = "tensor " + in_quotes(tensors.back().name) + ": ";
  switch (field_) {
    case Field::dtype:
      return fail(tensor + "dtype is " + what + ", not text");
    case Field::shape:
      return fail(tensor + "shape holds " + what + "; it must be a list of whole numbers from 0 to 2^63 - 1");
    case Field::offsets:
      return fail(tensor + "data_offsets hold " + what + "; they must be two whole numbers from 0 to 2^63 - 1");
    case Field::none:
      break;
  }
  return fail(tensor + "unexpected " + what);
}

bool HeaderEvents::number(std::uint64_t value) {
  if (where_ != Where::array || value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return unexpected(std::to_string(value));
  }
  std::vector<std::int64_t>& list = field_ == Field::shape ? tensors.back().shape : offsets_;
  if (list.size() == dims_limit) {
    return fail("tensor " + in_quotes(tensors.back().name) + ": more than " + std::to_string(dims_limit) + " numbers in " +
                (field_ == Field::shape ? "shape" : "data_offsets"));
  }
  list.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool HeaderEvents::string(std::string& value) {
  if (where_ == Where::metadata) {
    metadata[metadata_key_] = value;
    return true;
  }
  if (where_ == Where::tensor && field_ == Field::dtype) {
    tensors.back().dtype = value;
    return true;
  }
  return unexpected("the text " + in_quotes(value));
}

bool HeaderEvents::start_object(std::size_t) {
  if (where_ == Where::outside) {
    where_ = Where::top;
  } else if (where_ == Where::top) {
    where_ = pending_metadata_ ? Where::metadata : Where::tensor;
    pending_metadata_ = false;
    field_ = Field::none;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_.clear();
  } else {
    return unexpected("an object");
  }
  return true;
}

bool HeaderEvents::key(std::string& name) {
  if (where_ == Where::tensor) return tensor_key(name);
  if (where_ == Where::metadata) {
    if (metadata.contains(name)) return fail("__metadata__: duplicate key " + in_quotes(name));
    metadata_key_ = name;
    metadata.emplace(name, "");
    return true;
  }
  if (!names_.insert(name).second) return fail("duplicate key " + in_quotes(name));
  if (name == "__metadata__") {
    pending_metadata_ = true;
    return true;
  }
  if (const std::string fault = name_fault(name); !fault.empty()) return fail("a tensor with " + fault);
  tensors.emplace_back();
  tensors.back().name = name;
  return true;
}

bool HeaderEvents::tensor_key(const std::string& name) {
  bool* seen = nullptr;
  if (name == "dtype") {
    field_ = Field::dtype;
    seen = &has_dtype_;
  } else if (name == "shape") {
    field_ = Field::shape;
    seen = &has_shape_;
  } else if (name == "data_offsets") {
    field_ = Field::offsets;
    seen = &has_offsets_;
  } else {
    return fail("tensor " + in_quotes(tensors.back().name) + ": unknown key " + in_quotes(name));
  }
  if (*seen) return fail("tensor " + in_quotes(tensors.back().name) + ": duplicate key " + in_quotes(name));
  *seen = true;
  return true;
}

bool HeaderEvents::end_object() {
  if (where_ == Where::tensor) {
    TensorInfo& tensor = tensors.back();
    const char* missing = !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : !has_offsets_ ? "data_offsets" : nullptr;
    if (missing != nullptr) return fail("tensor " + in_quotes(tensor.name) + " has no " + missing);
    if (offsets_.size() != 2) {
      return fail("tensor " + in_quotes(tensor.name) + ": data_offsets hold " + std::to_string(offsets_.size()) +
                  " numbers, not 2");
    }
    tensor.begin = offsets_[0];
    tensor.end = offsets_[1];
  }
  where_ = where_ == Where::top ? Where::outside : Where::top;
  return true;
}

bool HeaderEvents::start_array(std::size_t) {
  const bool list_expected = where_ == Where::tensor && (field_ == Field::shape || field_ == Field::offsets);
  if (!list_expected) return unexpected("a list");
  where_ = Where::array;
  return true;
}

bool HeaderEvents::end_array() {
  where_ = Where::tensor;
  return true;
}

bool HeaderEvents::parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) {
  const bool encoding = std::string_view(exception.what()).find("UTF-8") != std::string_view::npos;
  return fail(std::string(encoding ? "the header is not UTF-8" : "the header is not valid JSON") + " (byte " +
              std::to_string(position) + " of it)");
}

}  // namespace gift
