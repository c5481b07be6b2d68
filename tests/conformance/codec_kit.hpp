// What the codec tests share: encode and decode between guard bytes, golden matrices, and a backend that is only its elements.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend.hpp"
#include "gift/format.hpp"
#include "ref_codec.hpp"

namespace codec_kit {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

/// The encoders and decoders under test: the scalar reference first, then the fast path for each instruction set of this machine.
struct Path {
  const char* name;
  std::function<std::remove_pointer_t<decltype(&gift::ref::encode_elements)>> encode;
  std::function<std::remove_pointer_t<decltype(&gift::ref::decode_elements)>> decode;
};
const std::vector<Path>& paths();

struct Matrix {
  std::int64_t rows = 0, cols = 0;
  Floats x;
};
Matrix row_of(Floats x);  ///< 1 x n
Matrix columns(std::int64_t cols, Floats x);

struct Encoded {
  gift::FormatSpec format;
  gift::ElementLayout layout;
  Bytes payload;
  gift::ref::ElementCounts counts;

  float fp32_scale(std::int64_t i) const;
  unsigned block_scale(std::int64_t i) const;
  unsigned code_byte(std::int64_t row, std::int64_t byte) const;
  std::vector<unsigned> code_bytes(std::int64_t row) const;
};

/// The key of the golden tables.
gift::RoundingKey golden_key();

/// Encodes between guard bytes, into two differently poisoned buffers. The test fails if a guard changed, if a byte was left
/// unwritten, or if the input was touched. Amax of the whole matrix for a tensor scale.
Encoded encode(const Path& path, const std::string& format, const Matrix& m, std::int64_t first_row = 0,
               gift::RoundingKey key = golden_key());
/// Decodes all rows at once and, again, row by row: both must agree, leave guards alone and write every element.
Floats decode(const Path& path, const Encoded& encoded);
/// decode(encode(m)) of the reference after checking that every path gives the same bytes and numbers.
Floats round_trip(const std::string& format, const Matrix& m);

std::vector<std::uint32_t> bits_of(const Floats& x);
inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float from_bits(std::uint32_t b) { return std::bit_cast<float>(b); }

/// Every format with every granularity and scale mode, nearest rounding; then the same with ":sr" where that exists.
const std::vector<std::string>& nearest_formats();
const std::vector<std::string>& stochastic_formats();

Bytes bytes_from_hex(const std::string& hex);

/// A backend that has only elements, for testing the checks of golden.hpp: `spoil` may change a code before it is handed out.
class ElementsOnly final : public gift::Backend {
 public:
  using Spoil = std::function<std::uint16_t(gift::Element, float, std::uint16_t)>;
  explicit ElementsOnly(Spoil spoil = nullptr) : spoil_(std::move(spoil)) {}
  const char* name() const noexcept override { return "elements only"; }
  std::string describe() const override { return "test"; }
  gift::Status encode(const gift::EncodeArgs&) const override { return none(); }
  gift::Status reduce(const gift::ReduceArgs&) const override { return none(); }
  gift::Status decode(const gift::DecodeArgs&) const override { return none(); }
  gift::Status commit(const gift::CommitArgs&) const override { return none(); }
  gift::Status rollback(const gift::RollbackArgs&) const override { return none(); }
  gift::Status re_express(const gift::TensorPlan&, const gift::TensorPlan&, int, float*, float*) const override { return none(); }
  gift::Status convert(gift::Element element, gift::Rounding rounding, const gift::RoundingKey& key, std::uint64_t first_index,
                       std::span<const float> in, std::span<std::uint16_t> out) const override;
  gift::Status expand(gift::Element element, std::span<const std::uint16_t> in, std::span<float> out) const override;
  const gift::LinAlg& linalg() const override { return linalg_; }

 private:
  static gift::Status none() { return gift::Status(gift::Code::internal, "elements only"); }
  class NoLinAlg final : public gift::LinAlg {
    std::string describe() const override { return "none"; }
    gift::Status add_gram(const float*, std::int64_t, std::int64_t, double*) const override { return none(); }
    gift::Status top_eigen(const double*, std::int64_t, std::int32_t, std::vector<double>&, std::vector<double>&) const override {
      return none();
    }
  };
  NoLinAlg linalg_;
  Spoil spoil_;
};

}  // namespace codec_kit
