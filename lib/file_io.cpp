// Reading by pread (a file that shrinks is an error, not a SIGBUS) and crash-safe writing.
#include "file_io.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "gift/safetensors.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr std::size_t io_chunk_bytes = std::size_t{1} << 30;  // one call moves less than 2^31 bytes on Linux anyway
constexpr std::int64_t text_limit_bytes = 16 << 20;

Status io_error(const std::string& path, const std::string& action, int error_number) {
  return Status(Code::io, printable(path) + ": cannot " + action + ": " + system_message(error_number));
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Makes a rename durable. Some file systems cannot sync a directory; that is no fault of the file.
Status sync_directory(const std::string& path) {
  const FileDescriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return io_error(path, "open its directory", errno);
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return io_error(path, "sync its directory", errno);
  return {};
}

/// Where `path` leads if it is a symbolic link to something that exists; else `path`.
std::string follow_link(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved ? resolved.get() : path;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() noexcept {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Result<OpenedFile> open_regular_file(const std::string& path) {
  if (path.find('\0') != std::string::npos) return Status(Code::invalid_argument, printable(path) + ": a file name with a NUL");
  OpenedFile file;
  file.fd = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd.get() < 0) return io_error(path, "open", errno);
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return io_error(path, "examine", errno);
  if (S_ISDIR(info.st_mode)) return Status(Code::io, printable(path) + ": is a directory, not a file");
  if (!S_ISREG(info.st_mode)) return Status(Code::io, printable(path) + ": is not a regular file");
  file.size_bytes = info.st_size;
  return file;
}

Status read_exactly(int fd, std::int64_t offset, std::span<std::byte> out, const std::string& what) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t wanted = std::min(out.size() - done, io_chunk_bytes);
    const ssize_t got = ::pread(fd, out.data() + done, wanted, static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(what, "read", errno);
    if (got == 0) {
      return Status(Code::io, printable(what) + ": ends at byte " + std::to_string(offset + static_cast<std::int64_t>(done)) +
                                  " while " + std::to_string(out.size() - done) + " more were expected: it changed while open");
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::move(other.fd_)) {
  other.temporary_.clear();
}

AtomicFile::~AtomicFile() {
  if (fd_.get() >= 0 && !temporary_.empty()) ::unlink(temporary_.c_str());  // while the lock is still held
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::invalid_argument, printable(path) + ": not a file name");
  }
  AtomicFile file;
  file.path_ = path;
  file.target_ = follow_link(path);
  struct stat info {};
  const bool exists = ::stat(file.target_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return Status(Code::io, printable(path) + ": is a directory, not a file");
  if (exists && !S_ISREG(info.st_mode)) {
    file.fd_ = FileDescriptor(::open(file.target_.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd_.get() < 0) return io_error(path, "open for writing", errno);
    return file;
  }
  if (Status status = file.open_temporary(); !status.ok()) return status;
  if (exists && ::fchmod(file.fd_.get(), info.st_mode & 07777) != 0) return io_error(path, "keep the old permissions", errno);
  return file;
}

Status AtomicFile::open_temporary() {
  constexpr int attempts = 16;  // the name may be renamed or removed by its last owner between our open and our lock
  const std::string name = target_ + ".gift-tmp";
  for (int attempt = 0; attempt < attempts; ++attempt) {
    FileDescriptor fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (fd.get() < 0) return io_error(path_, "create " + in_quotes(name), errno);
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      return Status(Code::io, printable(path_) + ": is being written by another process or thread right now");
    }
    struct stat ours {
    }, named{};
    if (::fstat(fd.get(), &ours) != 0) return io_error(path_, "examine " + in_quotes(name), errno);
    if (!S_ISREG(ours.st_mode)) return Status(Code::io, printable(path_) + ": " + in_quotes(name) + " is in the way");
    const bool still_there = ::lstat(name.c_str(), &named) == 0 && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
    if (!still_there) continue;
    if (::ftruncate(fd.get(), 0) != 0) return io_error(path_, "empty " + in_quotes(name), errno);
    temporary_ = name;
    fd_ = std::move(fd);
    return {};
  }
  return Status(Code::io, printable(path_) + ": " + in_quotes(name) + " keeps changing under our hands");
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::write(fd_.get(), bytes.data() + done, std::min(bytes.size() - done, io_chunk_bytes));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_error(path_, "write", errno);
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Status AtomicFile::commit() {
  if (temporary_.empty()) return {};
  if (::fsync(fd_.get()) != 0) return io_error(path_, "write to disk", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return io_error(path_, "rename " + in_quotes(temporary_), errno);
  temporary_.clear();
  fd_ = FileDescriptor();
  return sync_directory(target_);
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  if (Status status = file->write(bytes); !status.ok()) return status;
  return file->commit();
}

Result<std::string> read_text_file(const std::string& path) {
  Result<OpenedFile> file = open_regular_file(path);
  if (!file.ok()) return file.status();
  if (file->size_bytes > text_limit_bytes) {
    return Status(Code::bad_file, printable(path) + ": " + std::to_string(file->size_bytes) +
                                      " bytes, too long for a text file (limit " + std::to_string(text_limit_bytes) + ")");
  }
  std::string text(static_cast<std::size_t>(file->size_bytes), '\0');
  if (Status status = read_exactly(file->fd.get(), 0, std::as_writable_bytes(std::span(text)), path); !status.ok()) return status;
  return text;
}

}  // namespace gift
