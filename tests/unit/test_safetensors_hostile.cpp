// Every hostile file of fixtures/hostile gives the message that its maker wrote down, or opens if it only looks odd; and what is
// too big to commit is made here.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "../catch.hpp"
#include "../scratch.hpp"
#include "../skip.hpp"
#include "gift/safetensors.hpp"
#include "safetensors_header.hpp"

namespace {

using gift::SafetensorsFile;
using gift::tests::Scratch;

const std::string folder = std::string(GIFT_FIXTURES) + "/hostile/";

std::map<std::string, std::string> messages() {
  std::map<std::string, std::string> out;
  std::ifstream in(folder + "messages.txt");
  for (std::string line; std::getline(in, line);) {
    const std::size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    REQUIRE(out.emplace(line.substr(0, tab), line.substr(tab + 1)).second);
  }
  return out;
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string with_length(const std::string& json) {
  const std::uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json;
}

}  // namespace

TEST_CASE("hostile files: each is refused with its message, from disk and from memory") {
  const auto expected = messages();
  std::size_t seen = 0, accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = entry.path().filename().string(), path = entry.path().string();
    INFO(name);
    REQUIRE(expected.contains(name));
    ++seen;
    const auto file = SafetensorsFile::open(path);
    const std::string bytes = gift::tests::read_file(path);
    const auto parsed = SafetensorsFile::parse(as_bytes(bytes), "memory");
    REQUIRE(file.ok() == parsed.ok());
    if (file.ok()) {
      ++accepted;
      CHECK("ok" == expected.at(name));
      for (const gift::TensorInfo& info : file->tensors()) {
        CHECK(file->read_bytes(info.name).ok());
        CHECK(file->read_f32(info.name).ok() == (info.dtype == "F32"));
      }
    } else {
      CHECK(file.status().code() == gift::Code::bad_file);
      CHECK(file.status().message() == path + ": " + expected.at(name));
      CHECK(parsed.status().message() == "memory: " + expected.at(name));
    }
  }
  CHECK(seen == expected.size());
  CHECK(seen >= 90);
  CHECK(accepted >= 10);
}

TEST_CASE("hostile files: every truncation of a good file is refused") {
  const std::string whole = gift::tests::read_file(std::string(GIFT_FIXTURES) + "/gradients/step000201-rank0-fc1.safetensors");
  REQUIRE(whole.size() > 700000);
  REQUIRE(SafetensorsFile::parse(as_bytes(whole), "whole").ok());
  std::vector<std::size_t> cuts = {whole.size() / 2, whole.size() - 1, whole.size() - 4096};
  for (std::size_t cut = 0; cut < 400; ++cut) cuts.push_back(cut);
  for (const std::size_t cut : cuts) {
    const std::string part = whole.substr(0, cut);
    CHECK(SafetensorsFile::parse(as_bytes(part), "part").status().code() == gift::Code::bad_file);
  }
}

TEST_CASE("hostile files: nesting and header size cannot exhaust stack or memory") {
  std::string deep = "{\"x\":";
  deep.append(20'000'000, '[');
  CHECK(SafetensorsFile::parse(as_bytes(with_length(deep)), "deep").status().message() ==
        "deep: tensor 'x' is a list, not an object");

  // A header as long as allowed, honest but padded, and one byte more.
  const Scratch scratch;
  const std::string json = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  for (const std::int64_t extra : {0, 1}) {
    const std::string path = scratch / "padded.safetensors";
    const std::uint64_t length = static_cast<std::uint64_t>(gift::safetensors_header_limit_bytes + extra);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << json << std::string(length - json.size(), ' ') << 'd';
    out.close();
    CHECK(SafetensorsFile::open(path).ok() == (extra == 0));
  }
}

TEST_CASE("hostile files: offsets beyond 4 GiB are read where they are") {
  const Scratch scratch;
  const std::string path = scratch / "sparse.safetensors";
  const std::int64_t big = (std::int64_t{5} << 30) + 3;
  const std::string json = R"({"big":{"dtype":"U8","shape":[)" + std::to_string(big) + R"(],"data_offsets":[0,)" +
                           std::to_string(big) + R"(]},"x":{"dtype":"F32","shape":[2],"data_offsets":[)" + std::to_string(big) +
                           "," + std::to_string(big + 8) + "]}}";
  const std::string head = with_length(json);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(fd >= 0);
  const float values[2] = {1.5f, -3};
  const bool made = ::pwrite(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()) &&
                    ::pwrite(fd, values, 8, static_cast<off_t>(head.size()) + big) == 8;
  ::close(fd);
  if (!made) {
    GIFT_SKIP("this file system cannot hold a sparse file of 5 GiB");
  }
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(*file->read_f32("x") == std::vector<float>{1.5f, -3});

  // A file that shrinks while it is open is an error, not a crash.
  REQUIRE(::truncate(path.c_str(), 4096) == 0);
  const auto after = file->read_f32("x");
  REQUIRE_FALSE(after.ok());
  CHECK(after.status().code() == gift::Code::io);
  CHECK(after.status().message().find("it changed while open") != std::string::npos);
}

TEST_CASE("hostile files: what cannot be read as numbers says why") {
  const auto refusal = [](const std::string& name) {
    const auto file = SafetensorsFile::open(folder + name);
    REQUIRE(file.ok());
    return file->read_f32("x").status().message();
  };
  CHECK(
      refusal("ok_fp8_with_scale.safetensors") ==
      folder +
          "ok_fp8_with_scale.safetensors: tensor 'x': F8_E4M3 cannot be read as numbers (F32, BF16, F16 and F64 can): its codes "
          "have to be multiplied by the scales in 'x_scale_inv'; dump it dequantised");
  CHECK(refusal("ok_f4.safetensors") == folder +
                                            "ok_f4.safetensors: tensor 'x': F4 cannot be read as numbers (F32, BF16, F16 and F64 "
                                            "can): its codes mean nothing without their scales, and none are in this file");
}

TEST_CASE("hostile files: what is no regular file is refused at once") {
  const Scratch scratch;
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK(SafetensorsFile::open(scratch / "pipe").status().message() == scratch / "pipe" + ": is not a regular file");
  CHECK(SafetensorsFile::open(scratch.path()).status().message() == scratch.path() + ": is a directory, not a file");
  CHECK(SafetensorsFile::open("/dev/zero").status().message() == "/dev/zero: is not a regular file");
  CHECK(SafetensorsFile::open(scratch / "none").status().message() ==
        scratch / "none" + ": cannot open: No such file or directory");
  CHECK(SafetensorsFile::open(std::string("a\0b", 3)).status().message() == "'a\\x00b': a file name with a NUL");
  CHECK(SafetensorsFile::open("a\nb").status().message() == "'a\\x0ab': cannot open: No such file or directory");
}
