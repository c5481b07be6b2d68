// Any bytes as a safetensors file: refused with one line, or every tensor reads back at exactly its size.
#include "fuzz.hpp"
#include "gift/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gift;
  const auto file = SafetensorsFile::parse(fuzz::as_bytes(data, size), "fuzz");
  if (!file.ok()) {
    fuzz::require_refusal(file.status(), "fuzz: ");
    return 0;
  }
  std::size_t covered = 0;
  for (const TensorInfo& info : file->tensors()) {
    const auto bytes = file->read_bytes(info.name);
    fuzz::require(bytes.ok(), "a tensor of an accepted file reads", info.name);
    fuzz::require(static_cast<std::int64_t>(bytes->size()) == info.end - info.begin, "its bytes are those of its offsets",
                  info.name);
    covered += bytes->size();
    const auto values = file->read_f32(info.name);
    if (values.ok()) {
      fuzz::require(static_cast<std::int64_t>(values->size()) == info.elements, "one value an element", info.name);
      fuzz::require(file->read_f64(info.name)->size() == values->size(), "as many in FP64", info.name);
    } else {
      fuzz::require_refusal(values.status(), "fuzz: ");
    }
    for (const std::int64_t rows : {info.elements, info.elements / 2, std::int64_t{1}}) {
      const auto part = file->read_rows_f32(info.name, rows, 2, rows / 3, rows);
      fuzz::require(part.ok() == (values.ok() && rows * 2 == info.elements && rows / 3 <= rows), "rows read if they fit",
                    info.name);
    }
    fuzz::require(file->find(info.name) == &info, "a tensor is found by its name", info.name);
  }
  fuzz::require(covered < size, "tensors lie inside the file");
  return 0;
}
