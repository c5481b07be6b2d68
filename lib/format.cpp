// Wire formats: their texts, their limits, and where the parts of an encoded matrix lie.
#include "gift/format.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <vector>

namespace gift {
namespace {

constexpr std::int32_t default_fp8_block = 128;
constexpr std::int32_t nvfp4_block = 16;
constexpr std::int32_t mx_block = 32;
/// The element section and its codes start on multiples of this, so that no part of a payload is misaligned.
constexpr std::int64_t part_alignment_bytes = 16;

constexpr std::array<const char*, 7> format_names = {"fp32", "bf16", "e4m3", "e5m2", "mxfp8", "nvfp4", "mxfp4"};

bool is_scaled_fp8(Format format) { return format == Format::e4m3 || format == Format::e5m2; }
bool is_mx(Format format) { return format == Format::mxfp8 || format == Format::mxfp4; }

std::vector<std::string_view> split_at_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

/// The format of that name with everything else at its default; false if there is no such format.
bool bare_format(std::string_view name, FormatSpec& spec) {
  for (std::size_t i = 0; i < format_names.size(); ++i) {
    if (name != format_names[i]) continue;
    spec.format = static_cast<Format>(i);
    if (is_scaled_fp8(spec.format)) {
      spec.granularity = Granularity::block;
      spec.block = default_fp8_block;
    } else if (spec.format == Format::nvfp4) {
      spec.granularity = Granularity::row;
      spec.block = nvfp4_block;
    } else if (is_mx(spec.format)) {
      spec.granularity = Granularity::block;
      spec.block = mx_block;
    }
    return true;
  }
  return false;
}

/// A whole positive decimal number without sign, as the block size after "block:".
bool parse_block(std::string_view text, std::int32_t& block) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  return error == std::errc() && end == text.data() + text.size() && block > 0;
}

/// Takes the options of one format that start at parts[at]; returns how many parts they were (0: none of them fits).
std::size_t take_option(const std::vector<std::string_view>& parts, std::size_t at, FormatSpec& spec) {
  const std::string_view word = parts[at];
  if (is_scaled_fp8(spec.format)) {
    if (word == "tensor" || word == "row") {
      spec.granularity = word == "row" ? Granularity::row : Granularity::tensor;
      spec.block = 0;
      return 1;
    }
    if (word == "block") {
      if (at + 1 < parts.size() && parse_block(parts[at + 1], spec.block)) return 2;
      return at + 1 == parts.size() || parts[at + 1] == "sr" ? 1 : 0;
    }
  }
  if (spec.format == Format::nvfp4 && (word == "tensor" || word == "row")) {
    spec.granularity = word == "row" ? Granularity::row : Granularity::tensor;
    return 1;
  }
  if (is_mx(spec.format) && (word == "ceil" || word == "floor")) {
    spec.mx_scale = word == "ceil" ? MxScale::ceil : MxScale::floor;
    return 1;
  }
  return 0;
}

Status refuse(const FormatSpec& spec, const std::string& why) {
  return Status(Code::invalid_argument, std::string("format ") + format_name(spec.format) + ": " + why);
}

bool known(const FormatSpec& spec) {
  return static_cast<std::size_t>(spec.format) < format_names.size() && spec.granularity <= Granularity::block &&
         spec.rounding <= Rounding::sr && spec.mx_scale <= MxScale::floor;
}

/// a * b + c for non-negative numbers; false on overflow.
bool mul_add(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out) && !__builtin_add_overflow(out, c, &out);
}

bool align_up(std::int64_t& bytes) {
  if (__builtin_add_overflow(bytes, part_alignment_bytes - 1, &bytes)) return false;
  bytes -= bytes % part_alignment_bytes;
  return true;
}

std::int64_t blocks_of(std::int64_t cols, std::int32_t block) { return cols / block + (cols % block != 0 ? 1 : 0); }

bool code_row_bytes(Format format, std::int64_t cols, std::int64_t& bytes) {
  switch (format) {
    case Format::fp32:
      return !__builtin_mul_overflow(cols, std::int64_t{4}, &bytes);
    case Format::bf16:
      return !__builtin_mul_overflow(cols, std::int64_t{2}, &bytes);
    case Format::nvfp4:
    case Format::mxfp4:
      bytes = cols / 2 + cols % 2;
      return true;
    default:
      bytes = cols;
      return true;
  }
}

std::int64_t fp32_scales_a_row(const FormatSpec& spec, const ElementLayout& layout) {
  if (spec.granularity == Granularity::row) return 1;
  return is_scaled_fp8(spec.format) && spec.granularity == Granularity::block ? layout.blocks_per_row : 0;
}

/// Fills the layout of a non-empty matrix; false on overflow.
bool lay_out(const FormatSpec& spec, ElementLayout& layout) {
  const bool byte_scales = spec.format == Format::nvfp4 || is_mx(spec.format);
  if (spec.block > 0) layout.blocks_per_row = blocks_of(layout.cols, spec.block);
  if (__builtin_mul_overflow(layout.rows, fp32_scales_a_row(spec, layout), &layout.fp32_scales)) return false;
  if (spec.granularity == Granularity::tensor) layout.fp32_scales = 1;
  if (!mul_add(layout.fp32_scales, 4, 0, layout.block_scale_offset)) return false;
  if (!mul_add(layout.rows, byte_scales ? layout.blocks_per_row : 0, layout.block_scale_offset, layout.code_offset)) return false;
  if (!align_up(layout.code_offset)) return false;
  if (!byte_scales) layout.block_scale_offset = layout.code_offset;
  return code_row_bytes(spec.format, layout.cols, layout.code_row_bytes) &&
         mul_add(layout.rows, layout.code_row_bytes, layout.code_offset, layout.total_bytes) && align_up(layout.total_bytes);
}

}  // namespace

std::int64_t dtype_bytes(Dtype dtype) noexcept { return dtype == Dtype::f32 ? 4 : 2; }

const char* dtype_name(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::f16:
      return "f16";
  }
  return "unknown";
}

const char* format_name(Format format) noexcept {
  const auto index = static_cast<std::size_t>(format);
  return index < format_names.size() ? format_names[index] : "unknown";
}

Result<FormatSpec> parse_format(std::string_view text) {
  const std::vector<std::string_view> parts = split_at_colons(text);
  FormatSpec spec;
  if (!bare_format(parts[0], spec)) {
    return Status(Code::invalid_argument, "format \"" + std::string(text) +
                                              "\" is not known: the formats are fp32, bf16, e4m3, e5m2, mxfp8, nvfp4, mxfp4");
  }
  std::size_t at = 1;
  if (at < parts.size() && parts[at] != "sr") {
    const std::size_t taken = take_option(parts, at, spec);
    if (taken == 0) {
      return Status(Code::invalid_argument, "format \"" + std::string(text) + "\": " + format_name(spec.format) +
                                                " does not take \"" + std::string(parts[at]) +
                                                "\" (e4m3 and e5m2: tensor, row, block:N; nvfp4: row, tensor; mxfp8 and mxfp4: "
                                                "ceil, floor; then sr)");
    }
    at += taken;
  }
  if (at < parts.size() && parts[at] == "sr") {
    spec.rounding = Rounding::sr;
    ++at;
  }
  if (at < parts.size()) {
    return Status(Code::invalid_argument,
                  "format \"" + std::string(text) + "\": \"" + std::string(parts[at]) + "\" is one too many");
  }
  if (Status status = validate(spec); !status.ok()) return status;
  return spec;
}

std::string to_string(const FormatSpec& spec) {
  std::string text = format_name(spec.format);
  if (is_scaled_fp8(spec.format)) {
    if (spec.granularity == Granularity::tensor) text += ":tensor";
    if (spec.granularity == Granularity::row) text += ":row";
    if (spec.granularity == Granularity::block && spec.block != default_fp8_block) text += ":block:" + std::to_string(spec.block);
  }
  if (spec.format == Format::nvfp4 && spec.granularity == Granularity::tensor) text += ":tensor";
  if (is_mx(spec.format) && spec.mx_scale == MxScale::floor) text += ":floor";
  if (spec.rounding == Rounding::sr) text += ":sr";
  return text;
}

Status validate(const FormatSpec& spec) {
  if (!known(spec)) return Status(Code::invalid_argument, "format: a field is outside its range");
  const bool mx = is_mx(spec.format);
  if (!mx && spec.mx_scale != MxScale::ceil) return refuse(spec, "the floor rule belongs to mxfp8 and mxfp4");
  if (spec.format == Format::fp32 && spec.rounding == Rounding::sr)
    return refuse(spec, "nothing is rounded, so sr has no meaning");
  if (spec.format == Format::fp32 || spec.format == Format::bf16) {
    if (spec.granularity != Granularity::none || spec.block != 0) return refuse(spec, "there are no scales");
    return Status();
  }
  if (spec.granularity == Granularity::none) return refuse(spec, "a scale granularity is needed");
  if (is_scaled_fp8(spec.format)) {
    if (spec.granularity == Granularity::block && spec.block <= 0) {
      return refuse(spec, "block size " + std::to_string(spec.block) + " is not positive");
    }
    if (spec.granularity != Granularity::block && spec.block != 0) return refuse(spec, "a block size needs block granularity");
    return Status();
  }
  if (mx != (spec.granularity == Granularity::block)) {
    return refuse(spec, mx ? "scales are always shared by blocks" : "the global scale is per row or per tensor, not per block");
  }
  const std::int32_t block = mx ? mx_block : nvfp4_block;
  if (spec.block != block) {
    return refuse(spec, "the block is always " + std::to_string(block) + ", not " + std::to_string(spec.block));
  }
  return Status();
}

Result<ElementLayout> element_layout(const FormatSpec& spec, std::int64_t rows, std::int64_t cols) {
  if (Status status = validate(spec); !status.ok()) return status;
  const std::string shape = std::to_string(rows) + " x " + std::to_string(cols);
  if (rows < 0 || cols < 0) return Status(Code::invalid_argument, "a matrix of " + shape + " does not exist");
  ElementLayout layout;
  layout.rows = rows;
  layout.cols = cols;
  if (rows == 0 || cols == 0) return layout;
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(rows, cols, &elements) || !lay_out(spec, layout)) {
    return Status(Code::invalid_argument, "a matrix of " + shape + " in " + to_string(spec) + " has more than 2^63 bytes");
  }
  return layout;
}

double bits_per_element(const FormatSpec& spec, std::int64_t rows, std::int64_t cols) {
  const Result<ElementLayout> layout = element_layout(spec, rows, cols);
  if (!layout.ok() || layout->total_bytes == 0) return 0;
  return 8.0 * static_cast<double>(layout->total_bytes) / (static_cast<double>(rows) * static_cast<double>(cols));
}

}  // namespace gift
