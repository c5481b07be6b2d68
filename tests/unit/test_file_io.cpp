// Crash-safe writing: whatever happens, the path holds the old file or the new one, whole.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "../catch.hpp"
#include "../scratch.hpp"
#include "../skip.hpp"
#include "file_io.hpp"
#include "gift/safetensors.hpp"

namespace {

using gift::tests::read_file;
using gift::tests::Scratch;

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A state of `count` numbers that all equal `generation`: a mix of two generations shows.
gift::Status save_generation(const std::string& path, std::int32_t generation, std::size_t count) {
  const std::vector<float> values(count, static_cast<float>(generation));
  gift::TensorOut tensor{"state", "F32", {static_cast<std::int64_t>(count)}, {}};
  tensor.bytes.resize(count * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  std::vector<gift::TensorOut> tensors;
  tensors.push_back(std::move(tensor));
  return gift::write_safetensors(path, std::move(tensors), {{"generation", std::to_string(generation)}});
}

/// The generation that a saved state holds throughout; fails the test if it is not whole.
std::int32_t load_generation(const std::string& path) {
  const auto file = gift::SafetensorsFile::open(path);
  INFO(file.status().message());
  REQUIRE(file.ok());
  const auto values = file->read_f32("state");
  REQUIRE(values.ok());
  const float first = values->at(0);
  CHECK(std::all_of(values->begin(), values->end(), [first](float value) { return value == first; }));
  CHECK(file->metadata().at("generation") == std::to_string(static_cast<std::int32_t>(first)));
  return static_cast<std::int32_t>(first);
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

}  // namespace

TEST_CASE("atomic write: killed at random points of 200 saves, the file is always whole") {
  const Scratch scratch;
  const std::string path = scratch / "state.safetensors";
  constexpr std::size_t count = 1 << 18;
  REQUIRE(save_generation(path, 1, count).ok());
  std::mt19937 random(11);
  std::int32_t generation = 1;
  int interrupted = 0, advanced = 0;
  double longest_us = 3000;  // adapts, so that on any machine about half of the kills come after a finished save
  for (int kill_number = 0; kill_number < 200; ++kill_number) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::int32_t next = generation + 1;; ++next) {
        if (!save_generation(path, next, count).ok()) ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(std::uniform_real_distribution<double>(0, longest_us)(random)));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // no save failed on its own
    if (exists(path + ".gift-tmp")) ++interrupted;
    const std::int32_t now = load_generation(path);
    CHECK(now >= generation);
    if (now > generation) ++advanced;
    longest_us = std::min(longest_us * (now > generation ? 0.9 : 1.15), 3e5);
    generation = now;
  }
  CHECK(interrupted > 10);                                     // or the kills did not hit saves
  CHECK(advanced > 10);                                        // or there were no saves to hit
  REQUIRE(save_generation(path, generation + 1, count).ok());  // takes the leftover over
  CHECK(load_generation(path) == generation + 1);
  CHECK_FALSE(exists(path + ".gift-tmp"));
}

TEST_CASE("atomic write: a write that fails half-way leaves the old file and nothing else") {
  const Scratch scratch;
  const std::string path = scratch / "state.safetensors";
  REQUIRE(save_generation(path, 1, 1000).ok());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, 1 << 16};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const gift::Status status = save_generation(path, 2, 1 << 18);
    const bool named = status.message() == path + ": cannot write: File too large";
    ::_exit(!status.ok() && status.code() == gift::Code::io && named ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(load_generation(path) == 1);
  CHECK_FALSE(exists(path + ".gift-tmp"));
}

TEST_CASE("atomic write: a full disk leaves the old file and nothing else") {
  const Scratch scratch;
  const std::string disk = scratch / "disk", path = disk + "/state.safetensors";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
    GIFT_SKIP(std::string("a tmpfs cannot be mounted here: ") + std::strerror(errno));
  }
  const gift::Status first = save_generation(path, 1, 30000);
  const gift::Status second = save_generation(path, 2, 60000);
  const bool leftover = exists(path + ".gift-tmp");
  const std::int32_t generation = load_generation(path);
  ::umount2(disk.c_str(), MNT_DETACH);
  CHECK(first.ok());
  CHECK(second.message() == path + ": cannot write: No space left on device");
  CHECK(generation == 1);
  CHECK_FALSE(leftover);
}

TEST_CASE("atomic write: devices are written directly and their errors are reported") {
  CHECK(gift::write_file_atomically("/dev/null", as_bytes("x")).ok());
  CHECK(gift::write_file_atomically("/dev/full", as_bytes("x")).message() == "/dev/full: cannot write: No space left on device");
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("atomic write: links are followed, permissions kept, odd targets refused") {
  const Scratch scratch;
  const std::string file = scratch / "file", link = scratch / "link";
  REQUIRE(gift::write_file_atomically(file, as_bytes("one")).ok());
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  std::filesystem::create_symlink("file", link);
  REQUIRE(gift::write_file_atomically(link, as_bytes("two")).ok());
  CHECK(read_file(file) == "two");
  CHECK(std::filesystem::is_symlink(link));
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);

  const auto message = [](const std::string& path) { return gift::write_file_atomically(path, as_bytes("x")).message(); };
  CHECK(message(scratch.path()) == scratch.path() + ": is a directory, not a file");
  CHECK(message(scratch / "no/file").starts_with(scratch / "no/file: cannot create "));
  CHECK(message("") == "'': not a file name");
  std::filesystem::create_symlink("elsewhere", scratch / "trap.gift-tmp");
  CHECK(message(scratch / "trap").starts_with(scratch / "trap: cannot create "));
  CHECK_FALSE(exists(scratch / "elsewhere"));
}

TEST_CASE("atomic write: two writers of one path: the second is refused, not mixed in") {
  const Scratch scratch;
  const std::string path = scratch / "file";
  auto first = gift::AtomicFile::create(path);
  REQUIRE(first.ok());
  REQUIRE(first->write(as_bytes("first")).ok());
  CHECK(gift::write_file_atomically(path, as_bytes("second")).message() ==
        path + ": is being written by another process or thread right now");
  REQUIRE(first->commit().ok());
  CHECK(read_file(path) == "first");
  REQUIRE(gift::write_file_atomically(path, as_bytes("second")).ok());
  CHECK(read_file(path) == "second");
  {
    auto dropped = gift::AtomicFile::create(path);
    REQUIRE(dropped.ok());
    REQUIRE(dropped->write(as_bytes("never committed")).ok());
  }
  CHECK(read_file(path) == "second");
  CHECK_FALSE(exists(path + ".gift-tmp"));
}

TEST_CASE("atomic write: what a writer of safetensors refuses") {
  const Scratch scratch;
  const std::string path = scratch / "file.safetensors";
  const auto message = [&](std::vector<gift::TensorOut> tensors, const std::map<std::string, std::string>& metadata = {}) {
    return gift::write_safetensors(path, std::move(tensors), metadata).message();
  };
  const std::vector<std::byte> four(4);
  CHECK(message({{"__metadata__", "U8", {4}, four}}) == path + ": tensor '__metadata__': this name is reserved by the format");
  CHECK(message({{"a", "U8", {4}, four}, {"a", "F32", {1}, four}}) == path + ": tensor 'a': two tensors have this name");
  CHECK(message({{"a", "U8", {5}, four}}) == path + ": tensor 'a': 4 bytes of data, but shape and U8 need 5");
  CHECK(message({{"a", "U8", {-4}, four}}) == path + ": tensor 'a': shape holds -4");
  CHECK(message({{"", "U8", {4}, four}}) == path + ": a tensor with an empty name");
  CHECK(message({{"a\xFF", "U8", {4}, four}}) == path + ": a tensor with a name that is not UTF-8: 'a\\xff'");
  CHECK(message({{"a", "U8", {4}, four}}, {{"k", "\xFF"}}) == path + ": metadata 'k' is not UTF-8");
  CHECK(message({{"a", "F4", {3}, four}}) == path + ": tensor 'a': 3 elements of F4 (4 bits each) do not fill whole bytes");
  CHECK_FALSE(exists(path));
}

TEST_CASE("text files: read whole, within a limit") {
  const Scratch scratch;
  REQUIRE(gift::write_file_atomically(scratch / "a", as_bytes("x\ny")).ok());
  CHECK(*gift::read_text_file(scratch / "a") == "x\ny");
  std::ofstream(scratch / "empty");
  CHECK(gift::read_text_file(scratch / "empty")->empty());
  std::filesystem::resize_file(scratch / "a", (16 << 20) + 1);
  CHECK(gift::read_text_file(scratch / "a").status().message() ==
        scratch / "a" + ": 16777217 bytes, too long for a text file (limit 16777216)");
}
