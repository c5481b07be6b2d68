// Files at the level of the operating system: reading at any offset without surprises, writing so that a crash at any moment
// leaves the old file or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gift/status.hpp"

namespace gift {

/// An owned file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  int get() const noexcept { return fd_; }
  int release() noexcept;

 private:
  int fd_;
};

struct OpenedFile {
  FileDescriptor fd;
  std::int64_t size_bytes = 0;
};

/// Opens a regular file for reading; never waits (pipes and devices are refused).
Result<OpenedFile> open_regular_file(const std::string& path);

/// Reads exactly out.size() bytes at `offset`. Safe from several threads. `what` stands in messages.
Status read_exactly(int fd, std::int64_t offset, std::span<std::byte> out, const std::string& what);

/// A file in the making. Bytes go to `PATH.gift-tmp`, in the same directory; `commit` syncs it, renames it to PATH and syncs the
/// directory. Without commit the temporary file is removed. One writer a path: a second one, in any process, is refused. What a
/// killed process leaves is taken over by the next writer, so leftovers do not pile up. A symbolic link is followed; a device or
/// pipe is written directly.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile() = default;
  Status open_temporary();

  std::string path_, target_, temporary_;  ///< as asked for; links resolved; empty if `target_` is written directly
  FileDescriptor fd_;
};

}  // namespace gift
