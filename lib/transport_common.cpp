// What all transports share: agreeing on errors.
#include <cstring>
#include <string>

#include "gift/transport.hpp"

namespace gift {

Transport::~Transport() = default;

namespace {

/// Each rank's code and the length of its message, 8 bytes: the code in the first byte, the length in the other seven.
std::vector<std::byte> summary(const Status& status) {
  std::vector<std::byte> bytes(8);
  bytes[0] = static_cast<std::byte>(status.code());
  for (std::size_t i = 1; i < 8; ++i) bytes[i] = static_cast<std::byte>(status.message().size() >> (8 * (i - 1)));
  return bytes;
}

}  // namespace

Status agree(Transport& transport, const Status& local) {
  const auto size = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  std::vector<std::byte> all(8 * size);
  std::vector<Bytes> recv(size);
  for (std::size_t k = 0; k < size; ++k) recv[k] = Bytes(all).subspan(8 * k, 8);
  if (Status s = transport.all_gather(summary(local), recv); !s.ok()) return s;

  std::size_t failed = 0;
  while (failed < size && all[8 * failed] == std::byte{0}) ++failed;
  if (failed == size) return {};

  std::size_t length = 0;
  for (std::size_t i = 1; i < 8; ++i) length |= std::to_integer<std::size_t>(all[8 * failed + i]) << (8 * (i - 1));
  if (length > 65536)
    return {Code::bad_packet, "rank " + std::to_string(failed) + ": error message of " + std::to_string(length) + " bytes"};
  std::string text(length, ' ');
  for (std::size_t k = 0; k < size; ++k)
    recv[k] = k == failed ? Bytes(reinterpret_cast<std::byte*>(text.data()), length) : Bytes();
  const ConstBytes mine = rank == failed
                              ? ConstBytes(reinterpret_cast<const std::byte*>(local.message().data()), local.message().size())
                              : ConstBytes();
  if (Status s = transport.all_gather(mine, recv); !s.ok()) return s;
  const auto code = std::to_integer<unsigned>(all[8 * failed]);
  return {code <= static_cast<unsigned>(Code::internal) ? static_cast<Code>(code) : Code::internal,
          "rank " + std::to_string(failed) + ": " + text};
}

}  // namespace gift
