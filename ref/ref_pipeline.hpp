// The verbs of the CPU backends, written once over a table of kernels: the scalar reference and the default path run the same
// steps in the same order and differ only in who computes a row. Sizes, layouts and pointers were checked by Codec and Plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend.hpp"
#include "ref_codec.hpp"
#include "ref_transform.hpp"

namespace gift::ref {

/// What a CPU backend brings. Signatures and meaning are those of the reference functions of the same names.
struct Kernels {
  decltype(&ref::finite_amax) finite_amax;
  decltype(&ref::encode_elements) encode_elements;
  decltype(&ref::decode_elements) decode_elements;
  decltype(&ref::convert_values) convert_values;
  decltype(&ref::expand_codes) expand_codes;
  decltype(&ref::project_right) project_right;
  decltype(&ref::project_left) project_left;
  decltype(&ref::add_outer_right) add_outer_right;
  decltype(&ref::add_outer_left) add_outer_left;
  decltype(&ref::scale_columns) scale_columns;
  decltype(&ref::scale_rows) scale_rows;
  decltype(&ref::hadamard_forward) hadamard_forward;
  decltype(&ref::hadamard_inverse) hadamard_inverse;
};
/// The scalar functions of ref_codec.hpp and ref_transform.hpp.
const Kernels& scalar_kernels() noexcept;

using Floats = std::vector<float>;

/// What deflation takes out of a matrix; empty where a side is not deflated.
struct Projections {
  Floats s_right;  ///< rows x rank_right
  Floats s_left;   ///< rank_left x cols
};

/// R is kept in whitened coordinates: whiten on the right side alone (EncodeArgs says why).
bool residual_is_whitened(const TensorPlan& tensor) noexcept;
/// The coordinates that are quantised differ from the original ones by more than what deflation took out.
bool quantises_mapped(const TensorPlan& tensor) noexcept;

/// x (rows x cols) becomes what is quantised; deflation returns S, rounded to BF16.
Projections map_forward(const Kernels& kernels, const TensorPlan& tensor, Floats& x);
/// The way back: left, then right.
void map_back(const Kernels& kernels, const TensorPlan& tensor, const Projections& s, Floats& x);

/// The caller's buffer, widened exactly, and back with one rounding. Any alignment.
Floats load_matrix(const TensorPlan& tensor, const void* data);
void store_matrix(const TensorPlan& tensor, const Floats& x, void* data, std::uint64_t* overflowed);
void store_nan(const TensorPlan& tensor, void* data);

/// The parts of a payload. S_R: rows of the shard; S_L: the whole rank x cols matrix, of which the shard holds some columns.
void write_s_right(const TensorPlan& tensor, const PayloadLayout& layout, const float* shard_rows, std::byte* payload);
void write_s_left(const TensorPlan& tensor, const PayloadLayout& layout, const Floats& s_left, std::byte* payload);
void read_s_right(const TensorPlan& tensor, const PayloadLayout& layout, const std::byte* payload, float* shard_rows);
void read_s_left(const TensorPlan& tensor, const PayloadLayout& layout, const std::byte* payload, Floats& s_left);
void write_bitmap(const PayloadLayout& layout, const std::uint8_t* shard_rows, std::byte* payload);  ///< one byte a row
bool row_bit(const PayloadLayout& layout, const std::byte* payload, std::int64_t shard_row) noexcept;

/// All shards of a leg put together: elements, S (undivided) and one byte a row that says whether it is zero everywhere.
struct Gathered {
  Floats elements;
  Projections s;
  std::vector<std::uint8_t> zero_rows;
};
Gathered gather(const Kernels& kernels, const TensorPlan& tensor, int leg, std::span<const std::byte* const> payloads);

bool all_finite(const float* x, std::int64_t count) noexcept;
bool all_zero(const float* x, std::int64_t count) noexcept;
/// Sum of the squares of the finite values, in order, in FP64.
double finite_energy(const float* x, std::int64_t count) noexcept;

Status encode(const Kernels& kernels, const EncodeArgs& args);
Status reduce(const Kernels& kernels, const ReduceArgs& args);
Status decode(const Kernels& kernels, const DecodeArgs& args);
Status commit(const Kernels& kernels, const CommitArgs& args);
Status rollback(const Kernels& kernels, const RollbackArgs& args);
Status re_express(const Kernels& kernels, const TensorPlan& old_plan, const TensorPlan& new_plan, int shard,
                  float* owner_residual, float* residual);
Status convert(const Kernels& kernels, Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
               std::span<const float> in, std::span<std::uint16_t> out);
Status expand(const Kernels& kernels, Element element, std::span<const std::uint16_t> in, std::span<float> out);

/// A backend over a table of kernels.
std::shared_ptr<const Backend> make_pipeline_backend(const char* name, std::string description, const Kernels& kernels);

}  // namespace gift::ref
