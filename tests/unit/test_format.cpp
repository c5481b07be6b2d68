// Format texts, refusals, and layouts computed by hand.
#include "catch.hpp"
#include "gift/format.hpp"

using namespace gift;

TEST_CASE("format texts parse, and canonical texts come back unchanged", "[format]") {
  const struct {
    const char *text, *canonical;
  } cases[] = {{"fp32", "fp32"},
               {"bf16", "bf16"},
               {"bf16:sr", "bf16:sr"},
               {"e4m3", "e4m3"},
               {"e4m3:block", "e4m3"},
               {"e4m3:block:128", "e4m3"},
               {"e4m3:block:64", "e4m3:block:64"},
               {"e4m3:block:sr", "e4m3:sr"},
               {"e4m3:block:64:sr", "e4m3:block:64:sr"},
               {"e4m3:tensor", "e4m3:tensor"},
               {"e5m2:row:sr", "e5m2:row:sr"},
               {"nvfp4", "nvfp4"},
               {"nvfp4:row", "nvfp4"},
               {"nvfp4:tensor:sr", "nvfp4:tensor:sr"},
               {"mxfp8", "mxfp8"},
               {"mxfp8:ceil", "mxfp8"},
               {"mxfp4:floor", "mxfp4:floor"},
               {"mxfp4:floor:sr", "mxfp4:floor:sr"}};
  for (const auto& c : cases) {
    INFO(c.text);
    const Result<FormatSpec> spec = parse_format(c.text);
    REQUIRE(spec.ok());
    CHECK(to_string(*spec) == c.canonical);
    CHECK(parse_format(c.canonical).value() == *spec);
  }
  const FormatSpec spec = parse_format("e5m2").value();
  CHECK(spec.format == Format::e5m2);
  CHECK(spec.granularity == Granularity::block);
  CHECK(spec.block == 128);
  CHECK(parse_format("nvfp4").value().granularity == Granularity::row);
  CHECK(parse_format("mxfp4").value().block == 32);
}

TEST_CASE("format texts that are refused, with a message that quotes them", "[format]") {
  for (const char* text : {"",
                           "fp8",
                           "e4m3 ",
                           "E4M3",
                           "e4m3:",
                           "e4m3:block:0",
                           "e4m3:block:-4",
                           "e4m3:block:+4",
                           "e4m3:block:1e3",
                           "e4m3:block:64x",
                           "e4m3:block:99999999999",
                           "e4m3:block:",
                           "e4m3:row:64",
                           "e4m3:row:row",
                           "e4m3:sr:sr",
                           "e4m3:sr:row",
                           "nvfp4:block",
                           "nvfp4:16",
                           "mxfp8:tensor",
                           "mxfp8:round",
                           "bf16:row",
                           "fp32:sr",
                           "fp32:row",
                           "e4m3:floor",
                           ":",
                           "sr"}) {
    INFO(text);
    const Result<FormatSpec> spec = parse_format(text);
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.status().code() == Code::invalid_argument);
    CHECK(spec.status().message().find('\n') == std::string::npos);
    CHECK_FALSE(spec.status().message().empty());
  }
}

TEST_CASE("validate refuses what no format has, enum values from hostile bytes included", "[format]") {
  const FormatSpec good = parse_format("e4m3").value();
  CHECK(validate(good).ok());
  FormatSpec bad = good;
  bad.block = 0;
  CHECK_FALSE(validate(bad).ok());
  bad = good;
  bad.granularity = Granularity::none;
  CHECK_FALSE(validate(bad).ok());
  bad = good;
  bad.mx_scale = MxScale::floor;
  CHECK_FALSE(validate(bad).ok());
  bad = good;
  bad.format = static_cast<Format>(7);
  CHECK_FALSE(validate(bad).ok());
  bad = good;
  bad.rounding = static_cast<Rounding>(2);
  CHECK_FALSE(validate(bad).ok());
  bad = good;
  bad.granularity = static_cast<Granularity>(200);
  CHECK_FALSE(validate(bad).ok());
  bad = parse_format("nvfp4").value();
  bad.block = 32;
  CHECK_FALSE(validate(bad).ok());
  bad = parse_format("mxfp8").value();
  bad.granularity = Granularity::row;
  CHECK_FALSE(validate(bad).ok());
  bad = parse_format("bf16").value();
  bad.block = 1;
  CHECK_FALSE(validate(bad).ok());
}

TEST_CASE("layouts of odd shapes, part by part", "[format]") {
  struct Case {
    const char* format;
    std::int64_t rows, cols;
    std::int64_t blocks, fp32_scales, block_scale_offset, code_offset, code_row, total;
  };
  const Case cases[] = {
      {"fp32", 3, 5, 0, 0, 0, 0, 20, 64},               // 60 bytes
      {"bf16", 3, 5, 0, 0, 0, 0, 10, 32},               // 30 bytes
      {"e4m3", 2, 130, 2, 4, 16, 16, 130, 288},         // 16 + 260 = 276
      {"e4m3:tensor", 2, 130, 0, 1, 16, 16, 130, 288},  // 4 -> 16
      {"e4m3:row", 5, 3, 0, 5, 32, 32, 3, 48},          // 20 -> 32, + 15
      {"e5m2:block:5", 1, 7, 2, 2, 16, 16, 7, 32},      // 8 -> 16, + 7
      {"nvfp4", 3, 17, 2, 3, 12, 32, 9, 64},            // 12 + 6 = 18 -> 32, + 27
      {"nvfp4:tensor", 3, 17, 2, 1, 4, 16, 9, 48},      // 4 + 6 = 10 -> 16, + 27
      {"mxfp8", 2, 33, 2, 0, 0, 16, 33, 96},            // 4 -> 16, + 66
      {"mxfp4", 1, 1, 1, 0, 0, 16, 1, 32},
  };
  for (const Case& c : cases) {
    INFO(c.format);
    const ElementLayout l = element_layout(parse_format(c.format).value(), c.rows, c.cols).value();
    CHECK(l.rows == c.rows);
    CHECK(l.cols == c.cols);
    CHECK(l.blocks_per_row == c.blocks);
    CHECK(l.fp32_scales == c.fp32_scales);
    CHECK(l.fp32_scale_offset == 0);
    CHECK(l.block_scale_offset == c.block_scale_offset);
    CHECK(l.code_offset == c.code_offset);
    CHECK(l.code_row_bytes == c.code_row);
    CHECK(l.total_bytes == c.total);
  }
}

TEST_CASE("empty matrices have no bytes; sizes that overflow are refused", "[format]") {
  for (const char* text : {"fp32", "bf16", "e4m3", "e4m3:tensor", "e4m3:row", "nvfp4", "mxfp4"}) {
    const FormatSpec spec = parse_format(text).value();
    CHECK(element_layout(spec, 0, 16).value().total_bytes == 0);
    CHECK(element_layout(spec, 16, 0).value().total_bytes == 0);
    CHECK(element_layout(spec, 0, 0).value().fp32_scales == 0);
    const std::int64_t big = std::int64_t{1} << 32;
    CHECK_FALSE(element_layout(spec, big, big).ok());
    CHECK_FALSE(element_layout(spec, -1, 4).ok());
    CHECK_FALSE(element_layout(spec, 4, -1).ok());
    CHECK(bits_per_element(spec, 0, 5) == 0);
  }
  CHECK_FALSE(element_layout(parse_format("fp32").value(), 1, std::int64_t{1} << 61).ok());
  CHECK(element_layout(parse_format("e4m3").value(), 1 << 20, 1 << 20).ok());
  CHECK(bits_per_element(parse_format("nvfp4").value(), 4096, 4096) == Approx(4.5 + 32.0 / 4096));
  CHECK(bits_per_element(parse_format("e4m3").value(), 4096, 4096) == Approx(8.25));
  CHECK(bits_per_element(parse_format("mxfp4").value(), 4096, 4096) == Approx(4.25));
}

TEST_CASE("caller's types", "[format]") {
  CHECK(dtype_bytes(Dtype::f32) == 4);
  CHECK(dtype_bytes(Dtype::bf16) == 2);
  CHECK(dtype_bytes(Dtype::f16) == 2);
  CHECK(std::string(dtype_name(Dtype::bf16)) == "bf16");
  CHECK(std::string(format_name(Format::nvfp4)) == "nvfp4");
}
