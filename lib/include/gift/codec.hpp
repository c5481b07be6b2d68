// Codec: encode, reduce and decode as calls of their own. Session makes exactly these calls; so does a framework that carries the
// bytes itself, and every test that compares backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gift/export.hpp"
#include "gift/plan.hpp"
#include "gift/status.hpp"

namespace gift {

class Backend;  // private: the verbs of a device

/// What stochastic rounding draws from (SPEC "Rounding"). Equal keys give equal bytes.
struct RoundingKey {
  std::uint64_t seed = 0;
  std::uint32_t tensor_id = 0;
  std::uint32_t sender = 0;  ///< rank for leg 1; 0 for the owner's encode, so that the result does not depend on who owns what
  std::uint32_t step = 0;    ///< how many reductions of this tensor were committed before
};

/// What an encode found out on its way.
struct EncodeStats {
  bool non_finite = false;         ///< a NaN or Inf in X, in S or in what was quantised
  std::uint64_t saturated = 0;     ///< elements whose scaled value rounds beyond the largest code
  std::uint64_t top_codes = 0;     ///< elements that got the largest code of either sign (the paper's upper-end hits)
  std::uint64_t bottom_codes = 0;  ///< non-zero elements that got code 0 (the paper's lower-end hits)
  double error_energy = 0;  ///< sum of the squared quantisation error of finite elements, in the coordinates that are quantised
  double energy = 0;        ///< sum of X^2 (hadamard and whiten: of the transformed X, so that the two can be compared)
};

/// Leg 1. X = W + R; what travels is encode(X); R becomes X - decode(own payloads). (left and both: a row that is zero here is
/// fed back like any other; `commit` clears it when all ranks agree that it is zero.) A row in which anything is not finite does
/// not write R. R is in the original coordinates, but for whiten on the right side alone: there X = W T + R, and R stays in the
/// whitened coordinates, which is one map less a step. (A left map mixes rows, and rows that are zero have to stay exactly zero,
/// which only the original coordinates can say.)
struct EncodeArgs {
  const TensorPlan* tensor = nullptr;
  const void* input = nullptr;           ///< rows x cols, row-major, tensor->dtype, any alignment; not modified
  float* residual = nullptr;             ///< rows x cols, or null without error feedback
  std::uint8_t* row_written = nullptr;   ///< out: rows of them, 1 where R was written, else 0; null without error feedback
  std::span<std::byte* const> payloads;  ///< world of them; payloads[k] has leg1[k].total_bytes, all of which are written
  RoundingKey key;                       ///< stage 0
  EncodeStats* stats = nullptr;          ///< overwritten
};

/// The owner's part. Decodes every sender by its own scales, adds in rank order from rank 0's value; deflation: S is added apart,
/// rounded to BF16, and what that lost is folded into E; a mean is multiplied by 1/world; the owner's residual is added; encodes.
struct ReduceArgs {
  const TensorPlan* tensor = nullptr;
  int shard = 0;
  std::span<const std::byte* const> payloads;  ///< world of them, rank order, each leg1[shard].total_bytes
  const float* owner_residual = nullptr;       ///< shard rows x cols, in the coordinates that are quantised; or null
  float* quantised = nullptr;                  ///< out: shard rows x cols, what was quantised (`commit` needs it); never null
  float* left_loss = nullptr;                  ///< out: [rank_left, shard columns], what BF16 lost of the summed S_L; null unless
                                               ///< left or both deflation with error feedback
  std::byte* payload = nullptr;                ///< out: leg2[shard].total_bytes, all of which are written
  RoundingKey key;                             ///< stage 1, sender 0
  EncodeStats* stats = nullptr;
};

/// Maps the gathered shards back into the caller's buffer. An S of a mean is multiplied by 1/world here.
struct DecodeArgs {
  const TensorPlan* tensor = nullptr;
  int leg = 2;                                 ///< 1: decode one sender's own payloads, as if it were alone
  std::span<const std::byte* const> payloads;  ///< world of them, shard order
  bool non_finite = false;                     ///< the tensor is flagged: the output is all NaN, payloads are not read
  void* output = nullptr;                      ///< rows x cols, tensor->dtype, any alignment; may be the encode's input
  std::uint64_t* overflowed = nullptr;         ///< finite values that became Inf in F16 or BF16; may be null
};

/// After a reduce that no rank flagged: the owner's residual becomes quantised - decode(own leg-2 elements), left_loss goes
/// through U_L into the sender's residual, rows that all ranks had zero get a zero residual. (Left whiten keeps the owner's
/// residual of such a row: in the coordinates that are quantised the row is not zero.)
struct CommitArgs {
  const TensorPlan* tensor = nullptr;
  int shard = 0;
  std::span<const std::byte* const> leg2;  ///< world of them, shard order
  const float* quantised = nullptr;
  const float* left_loss = nullptr;
  float* owner_residual = nullptr;  ///< in/out
  float* residual = nullptr;        ///< in/out
};

/// After a flagged tensor or any error past encode: the residual becomes (R_new + decode(own payloads)) - W, for the rows that
/// encode wrote. (The owner's residual needs nothing: only `commit` writes it.)
struct RollbackArgs {
  const TensorPlan* tensor = nullptr;
  const void* input = nullptr;                ///< the W that was encoded, intact
  const std::uint8_t* row_written = nullptr;  ///< what encode wrote there
  std::span<const std::byte* const> leg1;     ///< own payloads, world of them
  float* residual = nullptr;
};

/// A backend opened by name. "cpu" is the default path, "ref" the scalar specification, "cuda" a GPU. All give the same bytes.
/// Thread safety: calls on one Codec from several threads are allowed when their buffers differ.
class GIFT_API Codec {
 public:
  /// Opens exactly the backend named, or says why it cannot (Code::unavailable); never another one.
  static Result<Codec> open(const std::string& backend);
  Codec(Codec&&) noexcept;
  Codec& operator=(Codec&&) noexcept;
  ~Codec();

  const std::string& backend() const noexcept;
  Status encode(const EncodeArgs& args) const;
  Status reduce(const ReduceArgs& args) const;
  Status decode(const DecodeArgs& args) const;
  Status commit(const CommitArgs& args) const;
  Status rollback(const RollbackArgs& args) const;

  /// One tensor, one rank, first leg only: output <- decode(encode(input)), the payload's bytes in `payload_bytes` if not null.
  Status round_trip(const TensorPlan& tensor, const void* input, float* residual, void* output, const RoundingKey& key,
                    EncodeStats* stats, std::int64_t* payload_bytes) const;

 private:
  friend const Backend& backend_of(const Codec& codec);  // backend.hpp
  Codec();
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Names that Codec::open knows, in order of preference, and for each whether it opens here.
struct BackendInfo {
  std::string name;
  bool available = false;
  std::string detail;  ///< device and instruction set, or the reason
};
GIFT_API std::vector<BackendInfo> backends();

}  // namespace gift
