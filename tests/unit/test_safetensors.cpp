// safetensors files that are as they should be: every dtype, odd alignment, empty shapes, round trips, paths.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "../catch.hpp"
#include "../scratch.hpp"
#include "gift/safetensors.hpp"
#include "safetensors_header.hpp"
#include "widen.hpp"

namespace {

using gift::SafetensorsFile;
using gift::tests::Scratch;

std::vector<std::byte> file_bytes(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  std::vector<std::byte> bytes(8 + json.size() + data.size());
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, json.data(), json.size());
  std::memcpy(bytes.data() + 8 + json.size(), data.data(), data.size());
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

gift::TensorOut tensor_f32(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return {name, "F32", std::move(shape), bytes_of(values)};
}

}  // namespace

TEST_CASE("safetensors: what is written is read back, sorted and aligned") {
  const Scratch scratch;
  const std::string path = scratch / "a.safetensors";
  const std::vector<float> w = {1, -0.0f, 3.5f, -4, 1e-45f, std::numeric_limits<float>::max()};
  std::vector<gift::TensorOut> tensors = {
      tensor_f32("w", {2, 3}, w),
      {"odd", "U8", {3}, std::vector<std::byte>(3, std::byte{7})},
      {"d", "F64", {2}, bytes_of<double>({0.1, -1e300})},
      {"b", "BF16", {2}, bytes_of<std::uint16_t>({0x3F80, 0xC000})},
      {"h", "F16", {2}, bytes_of<std::uint16_t>({0x3C00, 0x0001})},
      tensor_f32("none", {0, 16}, {}),
      tensor_f32("scalar", {}, {2.5f}),
  };
  const std::map<std::string, std::string> metadata = {{"step", "200"}, {"text \"quoted\"", "line\nbreak \xC3\xA9"}};
  REQUIRE(gift::write_safetensors(path, tensors, metadata).ok());

  auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(file->path() == path);
  CHECK(file->metadata() == metadata);
  std::vector<std::string> names;
  for (const gift::TensorInfo& info : file->tensors()) {
    names.push_back(info.name);
    const int bits = *gift::safetensors_dtype_bits(info.dtype);
    CHECK(info.begin % (bits / 8) == 0);
  }
  CHECK(names == std::vector<std::string>{"b", "d", "h", "none", "odd", "scalar", "w"});
  CHECK(bytes_of(*file->read_f32("w")) == bytes_of(w));
  CHECK(*file->read_f32("b") == std::vector<float>{1, -2});
  CHECK(*file->read_f32("h") == std::vector<float>{1, 0x1p-24f});
  CHECK(*file->read_f64("d") == std::vector<double>{0.1, -1e300});
  CHECK(*file->read_f32("d") == std::vector<float>{0.1f, -std::numeric_limits<float>::infinity()});
  CHECK(*file->read_f64("w") == std::vector<double>(w.begin(), w.end()));
  CHECK(*file->read_f32("scalar") == std::vector<float>{2.5f});
  CHECK(file->read_f32("none")->empty());
  CHECK(file->find("none")->elements == 0);
  CHECK(*file->read_rows_f32("w", 3, 2, 1, 3) == std::vector<float>(w.begin() + 2, w.end()));
  CHECK(*file->read_rows_f32("w", 2, 3, 0, 1) == std::vector<float>(w.begin(), w.begin() + 3));
  CHECK_FALSE(file->read_rows_f32("w", 2, 2, 0, 1).ok());
  CHECK_FALSE(file->read_rows_f32("w", 2, 3, 1, 3).ok());
  CHECK(file->find("W") == nullptr);
  CHECK(file->read_f32("W").status().message() == path + ": tensor 'W': is not in this file");

  std::reverse(tensors.begin(), tensors.end());
  REQUIRE(gift::write_safetensors(scratch / "b.safetensors", tensors, metadata).ok());
  CHECK(gift::tests::read_file(path) == gift::tests::read_file(scratch / "b.safetensors"));
}

TEST_CASE("safetensors: every published dtype has its size") {
  const std::map<std::string, int> bits = {{"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                           {"F8_E8M0", 8}, {"F4", 4},   {"I16", 16}, {"U16", 16},    {"F16", 16},
                                           {"BF16", 16},   {"I32", 32}, {"U32", 32}, {"F32", 32},    {"F64", 64},
                                           {"I64", 64},    {"U64", 64}, {"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [dtype, each] : bits) {
    const std::string bytes = std::to_string(4 * each / 8), data(static_cast<std::size_t>(4 * each / 8), '\1');
    const std::string json = R"({"x":{"dtype":")" + dtype + R"(","shape":[2,2],"data_offsets":[0,)" + bytes + "]}}";
    INFO(dtype);
    auto file = SafetensorsFile::parse(file_bytes(json, data), "memory");
    REQUIRE(file.ok());
    CHECK(file->find("x")->elements == 4);
    CHECK(file->read_bytes("x")->size() == data.size());
    const bool number = dtype == "F32" || dtype == "BF16" || dtype == "F16" || dtype == "F64";
    CHECK(file->read_f32("x").ok() == number);
    CHECK(file->read_f64("x").ok() == number);
  }
}

TEST_CASE("safetensors: data at odd addresses is read all the same") {
  for (const std::string padding : {"", " ", "  ", "   "}) {
    const std::string json = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("x":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})" +
                             padding;
    std::string data(11, '\0');
    const float values[2] = {1.5f, -2.25f};
    std::memcpy(data.data() + 3, values, 8);
    auto file = SafetensorsFile::parse(file_bytes(json, data), "memory");
    REQUIRE(file.ok());
    CHECK(*file->read_f32("x") == std::vector<float>{1.5f, -2.25f});
  }
}

TEST_CASE("safetensors: widening and rounding agree with the processor's own") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200000; ++i) {
    auto bits = random();
    if (i % 2 == 0) bits = (bits & 0x800FFFFFFFFFFFFFu) | (1023u - 160u + bits % 300u) << 52;  // around FP32's range
    const double value = std::bit_cast<double>(bits);
    if (std::isnan(value)) continue;
    REQUIRE(std::bit_cast<std::uint32_t>(gift::round_f64(value)) == std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    const float narrow = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(narrow)) REQUIRE(gift::widen_f32(narrow) == static_cast<double>(narrow));
  }
  CHECK(std::isnan(gift::round_f64(std::nan(""))));
  CHECK(gift::round_f64(0x1p-150) == 0.0f);
  CHECK(gift::round_f64(0x1.0000000000001p-150) == 0x1p-149f);
  CHECK(gift::round_f64(0x1.8p-149) == 0x1p-148f);
  CHECK(std::signbit(gift::round_f64(-1e-300)));
  for (std::uint32_t code = 0; code < 65536; ++code) {  // F16 by its definition: (-1)^s * 1.m * 2^(e-15), or 0.m * 2^-14
    const std::uint32_t e = code >> 10 & 31, m = code & 1023;
    const float value = gift::widen_f16(static_cast<std::uint16_t>(code));
    if (e == 31 && m != 0) {
      REQUIRE(std::isnan(value));
      continue;
    }
    double expected = e == 31  ? std::numeric_limits<double>::infinity()
                      : e == 0 ? std::ldexp(m, -24)
                               : std::ldexp(1024 + m, static_cast<int>(e) - 25);
    if (code >> 15 != 0) expected = -expected;
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(std::signbit(value) == (code >> 15 != 0));
  }
}

TEST_CASE("safetensors: the fixtures hold what their README says") {
  const std::string folder = std::string(GIFT_FIXTURES) + "/gradients/";
  auto paths = gift::expand_paths({folder + "step000200-rank?.safetensors"});
  REQUIRE(paths.ok());
  REQUIRE(paths->size() == 4);
  for (const std::string& path : *paths) {
    auto file = SafetensorsFile::open(path);
    REQUIRE(file.ok());
    CHECK(file->metadata().at("step") == "200");
    CHECK(file->tensors().size() == 6);
    CHECK(file->find("layers.1.fc1.weight")->shape == std::vector<std::int64_t>{1408, 256});
    CHECK(file->find("layers.1.mlp_norm.weight")->dtype == "F32");
    for (const gift::TensorInfo& info : file->tensors()) {
      double energy = 0;
      const auto values = file->read_f32(info.name);
      REQUIRE(values.ok());
      for (const float value : *values) energy += static_cast<double>(value) * static_cast<double>(value);
      CHECK(energy > 0);
      CHECK(std::isfinite(energy));
    }
  }
}

TEST_CASE("paths: patterns, directories and repeats") {
  const Scratch scratch;
  for (const char* name : {"b.safetensors", "a.safetensors", "c[1].safetensors", "note.txt", ".hidden.safetensors"}) {
    std::ofstream(scratch / name) << "x";
  }
  std::filesystem::create_directory(scratch / "empty");
  std::filesystem::create_hard_link(scratch / "a.safetensors", scratch / "z.safetensors");
  const auto names = [&](const std::vector<std::string>& patterns) {
    std::vector<std::string> out;
    auto paths = gift::expand_paths(patterns);
    REQUIRE(paths.ok());
    for (const std::string& path : *paths) out.push_back(std::filesystem::path(path).filename().string());
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(names({scratch / "[ab].safetensors"}) == Names{"a.safetensors", "b.safetensors"});
  CHECK(names({scratch.path()}) == Names{"a.safetensors", "b.safetensors", "c[1].safetensors"});
  CHECK(names({scratch / "c[1].safetensors"}) == Names{"c[1].safetensors"});
  CHECK(names({scratch / "b*", scratch / "a*", scratch / "./b.safetensors"}) == Names{"b.safetensors", "a.safetensors"});

  const auto message = [&](const std::string& pattern) { return gift::expand_paths({pattern}).status().message(); };
  CHECK(message(scratch / "x*") == scratch / "x*" + ": no file matches this pattern");
  CHECK(message(scratch / "nothing") == scratch / "nothing" + ": no such file");
  CHECK(message(scratch / "empty") == scratch / "empty" + ": this directory holds no *.safetensors");
  CHECK(message("") == "'': not a file name or pattern");
  CHECK_FALSE(gift::expand_paths({}).ok());
}
