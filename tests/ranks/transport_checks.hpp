// Checks that hold for every transport, as one function a rank calls; the threads tests and the MPI program both use them.
// They return what is wrong as text, empty if nothing is.
#pragma once

#include <string>
#include <vector>

#include "gift/transport.hpp"

namespace gift::tests {

/// Bytes that say where they came from: byte i of what `from` sends to `to` in round `round`.
inline std::byte pattern(int from, int to, std::size_t i, int round) {
  return static_cast<std::byte>(static_cast<std::size_t>(from) * 7 + static_cast<std::size_t>(to) * 13 + i * 31 +
                                static_cast<std::size_t>(round) * 101);
}

/// Sizes that differ from pair to pair, zero among them.
inline std::size_t pair_bytes(int from, int to, int round, std::size_t scale) {
  return static_cast<std::size_t>((from * 3 + to * 5 + round) % 4) * scale + static_cast<std::size_t>((from + to + round) % 2);
}

inline std::string check_all_to_all(Transport& t, int round, std::size_t scale) {
  const int n = t.size(), me = t.rank();
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(n)), in(static_cast<std::size_t>(n));
  std::vector<ConstBytes> send;
  std::vector<Bytes> recv;
  for (int k = 0; k < n; ++k) {
    auto& o = out[static_cast<std::size_t>(k)];
    o.resize(pair_bytes(me, k, round, scale));
    for (std::size_t i = 0; i < o.size(); ++i) o[i] = pattern(me, k, i, round);
    in[static_cast<std::size_t>(k)].assign(pair_bytes(k, me, round, scale), std::byte{0xEE});
  }
  for (auto& o : out) send.emplace_back(o);
  for (auto& i : in) recv.emplace_back(i);
  if (Status s = t.all_to_all(send, recv); !s.ok()) return s.message();
  for (auto& o : out) o.assign(o.size(), std::byte{0});  // the call has returned: the buffers are the caller's again
  for (int k = 0; k < n; ++k)
    for (std::size_t i = 0; i < in[static_cast<std::size_t>(k)].size(); ++i)
      if (in[static_cast<std::size_t>(k)][i] != pattern(k, me, i, round))
        return "all_to_all round " + std::to_string(round) + ": byte " + std::to_string(i) + " from rank " + std::to_string(k) +
               " differs";
  return {};
}

inline std::string check_all_gather(Transport& t, int round, std::size_t scale) {
  const int n = t.size(), me = t.rank();
  std::vector<std::byte> out(pair_bytes(me, me, round, scale));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(me, 0, i, round);
  std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(n));
  std::vector<Bytes> recv;
  for (int k = 0; k < n; ++k) {
    in[static_cast<std::size_t>(k)].resize(pair_bytes(k, k, round, scale));
    recv.emplace_back(in[static_cast<std::size_t>(k)]);
  }
  if (Status s = t.all_gather(out, recv); !s.ok()) return s.message();
  for (int k = 0; k < n; ++k)
    for (std::size_t i = 0; i < in[static_cast<std::size_t>(k)].size(); ++i)
      if (in[static_cast<std::size_t>(k)][i] != pattern(k, 0, i, round))
        return "all_gather round " + std::to_string(round) + ": byte " + std::to_string(i) + " from rank " + std::to_string(k) +
               " differs";
  return {};
}

/// Sums known in closed form, and a sum whose value depends on the order: in rank order 1e8 - 1e8 + 1 + ... keeps what any other
/// loses.
inline std::string check_sum(Transport& t, std::size_t count) {
  const int n = t.size(), me = t.rank();
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(me + 1) * static_cast<float>(i % 64);
  if (Status s = t.small_all_reduce_sum(values); !s.ok()) return s.message();
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != static_cast<float>(n * (n + 1) / 2) * static_cast<float>(i % 64))
      return "sum: value " + std::to_string(i) + " is " + std::to_string(values[i]);
  std::vector<float> order(1, me == 0 ? 1e8F : me == 1 ? -1e8F : 0.25F);
  if (Status s = t.small_all_reduce_sum(order); !s.ok()) return s.message();
  const float want = n == 1 ? 1e8F : 0.25F * static_cast<float>(n - 2);
  return order[0] == want ? std::string()
                          : "sum in rank order is " + std::to_string(order[0]) + ", expected " + std::to_string(want);
}

inline std::string check_agree(Transport& t) {
  if (Status s = agree(t, {}); !s.ok()) return "agree on nothing: " + s.message();
  const int first = t.size() / 2;
  const Status local = t.rank() >= first ? Status(Code::bad_file, "x.safetensors: no " + std::to_string(t.rank())) : Status();
  const Status all = agree(t, local);
  const std::string want = "rank " + std::to_string(first) + ": x.safetensors: no " + std::to_string(first);
  if (all.message() != want || all.code() != Code::bad_file) return "agree gave '" + all.message() + "', expected '" + want + "'";
  return {};
}

/// Everything, several rounds, calls of different kinds one after the other.
inline std::string check_transport(Transport& t, std::size_t scale) {
  for (int round = 0; round < 4; ++round) {
    if (std::string e = check_all_to_all(t, round, scale); !e.empty()) return e;
    if (std::string e = check_all_gather(t, round, scale); !e.empty()) return e;
    if (Status s = t.barrier(); !s.ok()) return s.message();
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}})
    if (std::string e = check_sum(t, count); !e.empty()) return e;
  return check_agree(t);
}

}  // namespace gift::tests
