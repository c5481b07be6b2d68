// basis.safetensors: a set of bases as tensors, with one JSON object a layer in the file's metadata. What is read is sealed
// again: a file whose numbers do not give the hash it states is refused.
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "gift/basis.hpp"
#include "gift/safetensors.hpp"
#include "text.hpp"

namespace gift {
namespace {

using Json = nlohmann::json;

constexpr const char* layer_prefix = "layer:";
constexpr const char* format_text = "gift-basis 1";

template <class Bits, class T>
std::vector<std::byte> little_endian(const std::vector<T>& values) {
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() * sizeof(T));
  for (const T value : values) {
    const auto bits = std::bit_cast<Bits>(value);
    for (unsigned i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  return bytes;
}

TensorOut tensor_f32(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return {name, "F32", std::move(shape), little_endian<std::uint32_t>(values)};
}

void put_side(const std::string& prefix, const SideBasis& b, std::vector<TensorOut>& tensors, Json& about) {
  tensors.push_back(tensor_f32(prefix + ".u", {b.dim, b.rank}, b.u));
  if (!b.d.empty()) {
    tensors.push_back(tensor_f32(prefix + ".d", {b.rank}, b.d));
    tensors.push_back(tensor_f32(prefix + ".d_inv", {b.rank}, b.d_inv));
  }
  tensors.push_back({prefix + ".eigenvalues",
                     "F64",
                     {static_cast<std::int64_t>(b.eigenvalues.size())},
                     little_endian<std::uint64_t>(b.eigenvalues)});
  about = {{"trace", b.trace}};
}

Status put_layer(const std::string& name, const LayerBasis& layer, std::vector<TensorOut>& tensors,
                 std::map<std::string, std::string>& metadata) {
  if (const std::string fault = name_fault(name); !fault.empty()) return Status(Code::invalid_argument, "layer name " + fault);
  LayerBasis checked = layer;
  if (const Status s = checked.seal(); !s.ok()) return s.at(name);
  if (!(checked.hash == layer.hash)) return Status(Code::invalid_argument, name + ": the basis was changed after seal()");
  for (const double value : {layer.right.trace, layer.left.trace, layer.exponent, layer.damping}) {
    if (!std::isfinite(value)) return Status(Code::invalid_argument, name + ": trace, exponent and damping must be finite");
  }
  if (!is_utf8(layer.source)) return Status(Code::invalid_argument, name + ": the source is not UTF-8");
  Json about = {{"geometry", geometry_name(layer.kind)},
                {"side", side_name(layer.side)},
                {"hash", to_string(layer.hash)},
                {"source", layer.source},
                {"step", layer.step},
                {"samples", layer.samples}};
  if (layer.kind == GeometryKind::whiten) {
    about["exponent"] = layer.exponent;
    about["damping"] = layer.damping;
  }
  if (has_right(layer.side)) put_side(name + ":right", layer.right, tensors, about["right"]);
  if (has_left(layer.side)) put_side(name + ":left", layer.left, tensors, about["left"]);
  metadata[layer_prefix + name] = about.dump();
  return Status();
}

/// One layer as its JSON object and tensors say it. Every fault is named; nothing is guessed.
class LayerReader {
 public:
  LayerReader(const SafetensorsFile& file, std::string name) : file_(file), name_(std::move(name)) {}

  Result<LayerBasisPtr> read(const std::string& text) {
    about_ = Json::parse(text, nullptr, false);
    if (!about_.is_object()) return bad("its metadata is not a JSON object");
    auto layer = std::make_shared<LayerBasis>();
    const Result<GeometryKind> kind = parse_geometry(text_at("geometry"));
    if (!kind.ok()) return bad("its metadata: " + kind.status().message());
    const Result<Side> side = parse_side(text_at("side"));
    if (!side.ok()) return bad("its metadata: " + side.status().message());
    layer->kind = *kind;
    layer->side = *side;
    layer->source = text_at("source");
    layer->step = integer_at("step", -1);
    layer->samples = integer_at("samples", 0);
    layer->exponent = number_at(about_, "exponent");
    layer->damping = number_at(about_, "damping");
    if (has_right(*side)) {
      if (const Status s = read_side("right", *kind, layer->right); !s.ok()) return s;
    }
    if (has_left(*side)) {
      if (const Status s = read_side("left", *kind, layer->left); !s.ok()) return s;
    }
    if (const Status s = layer->seal(); !s.ok()) return bad(s.message());
    if (to_string(layer->hash) != text_at("hash")) {
      return bad("the file states hash " + in_quotes(text_at("hash")) + ", its numbers give " + to_string(layer->hash));
    }
    return LayerBasisPtr(layer);
  }

  std::int64_t tensors_used() const { return used_; }

 private:
  Status bad(const std::string& what) const {
    return Status(Code::bad_file, printable(file_.path()) + ": layer " + in_quotes(name_) + ": " + what);
  }
  std::string text_at(const char* key) const {
    const auto it = about_.find(key);
    return it != about_.end() && it->is_string() ? it->get<std::string>() : std::string();
  }
  std::int64_t integer_at(const char* key, std::int64_t otherwise) const {
    const auto it = about_.find(key);
    return it != about_.end() && it->is_number_integer() ? it->get<std::int64_t>() : otherwise;
  }
  static double number_at(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_number() ? it->get<double>() : 0.0;
  }

  /// A tensor of this layer, of the dtype and shape that it must have; -1 stands for any extent.
  Result<const TensorInfo*> find(const std::string& tensor, const char* dtype, const std::vector<std::int64_t>& shape) {
    const TensorInfo* info = file_.find(tensor);
    if (info == nullptr) return bad("tensor " + in_quotes(tensor) + " is missing");
    if (info->dtype != dtype) return bad("tensor " + in_quotes(tensor) + " is " + info->dtype + ", " + dtype + " is due");
    bool fits = info->shape.size() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || shape[i] == info->shape[i];
    if (!fits) return bad("tensor " + in_quotes(tensor) + " has the wrong shape");
    ++used_;
    return info;
  }

  Status read_f32(const std::string& tensor, const std::vector<std::int64_t>& shape, std::vector<float>& out) {
    if (const auto info = find(tensor, "F32", shape); !info.ok()) return info.status();
    Result<std::vector<float>> values = file_.read_f32(tensor);
    if (!values.ok()) return values.status();
    out = *std::move(values);
    return Status();
  }

  Status read_side(const char* side, GeometryKind kind, SideBasis& out) {
    const std::string prefix = name_ + ":" + side;
    const auto u = find(prefix + ".u", "F32", {-1, -1});
    if (!u.ok()) return u.status();
    if ((*u)->shape[1] > std::numeric_limits<std::int32_t>::max()) return bad(prefix + ".u has too many columns");
    out.dim = (*u)->shape[0];
    out.rank = static_cast<std::int32_t>((*u)->shape[1]);
    --used_;
    if (const Status s = read_f32(prefix + ".u", {out.dim, out.rank}, out.u); !s.ok()) return s;
    if (kind == GeometryKind::whiten) {
      if (const Status s = read_f32(prefix + ".d", {out.rank}, out.d); !s.ok()) return s;
      if (const Status s = read_f32(prefix + ".d_inv", {out.rank}, out.d_inv); !s.ok()) return s;
    }
    if (const auto info = find(prefix + ".eigenvalues", "F64", {-1}); !info.ok()) return info.status();
    Result<std::vector<double>> values = file_.read_f64(prefix + ".eigenvalues");
    if (!values.ok()) return values.status();
    out.eigenvalues = *std::move(values);
    if (const auto it = about_.find(side); it != about_.end() && it->is_object()) out.trace = number_at(*it, "trace");
    return Status();
  }

  const SafetensorsFile& file_;
  std::string name_;
  Json about_;
  std::int64_t used_ = 0;
};

}  // namespace

Status save_basis(const BasisSet& set, const std::string& path) {
  std::vector<TensorOut> tensors;
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : set.metadata) {
    if (key == "format" || key == "hash" || key.rfind(layer_prefix, 0) == 0) {
      return Status(Code::invalid_argument, printable(path) + ": metadata key " + in_quotes(key) + " is reserved");
    }
    metadata[key] = value;
  }
  for (const auto& [name, layer] : set.layers) {
    if (!layer) return Status(Code::invalid_argument, printable(path) + ": layer " + in_quotes(name) + " has no basis");
    if (const Status s = put_layer(name, *layer, tensors, metadata); !s.ok()) return s.at(printable(path));
  }
  metadata["format"] = format_text;
  metadata["hash"] = to_string(set.hash());
  return write_safetensors(path, std::move(tensors), metadata);
}

Result<BasisSet> load_basis(const std::string& path) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  const auto format = file->metadata().find("format");
  if (format == file->metadata().end() || format->second != format_text) {
    const std::string found = format == file->metadata().end() ? "no format" : "format " + in_quotes(format->second);
    return Status(Code::bad_file,
                  printable(path) + " is not a basis file: its metadata has " + found + ", '" + format_text + "' is due");
  }
  BasisSet set;
  std::int64_t used = 0;
  std::string stated;
  for (const auto& [key, value] : file->metadata()) {
    if (key == "hash") stated = value;
    if (key == "format" || key == "hash") continue;
    if (key.rfind(layer_prefix, 0) != 0) {
      set.metadata[key] = value;
      continue;
    }
    const std::string name = key.substr(std::string(layer_prefix).size());
    LayerReader reader(*file, name);
    Result<LayerBasisPtr> layer = reader.read(value);
    if (!layer.ok()) return layer.status();
    used += reader.tensors_used();
    set.layers[name] = *layer;
  }
  if (used != static_cast<std::int64_t>(file->tensors().size())) {
    return Status(Code::bad_file, printable(path) + ": " + std::to_string(file->tensors().size()) + " tensors, of which " +
                                      std::to_string(used) + " belong to a layer");
  }
  if (to_string(set.hash()) != stated) {
    return Status(Code::bad_file,
                  printable(path) + ": the file states hash " + in_quotes(stated) + ", its layers give " + to_string(set.hash()));
  }
  return set;
}

}  // namespace gift
