// Strict numbers: what is accepted, what is refused, how results read.
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "numbers.hpp"

using namespace gift::cli;

TEST_CASE("sizes are whole strings with powers of 1024", "[cli]") {
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("17") == 17);
  CHECK(*parse_size("64K") == 65536);
  CHECK(*parse_size("2M") == 2097152);
  CHECK(*parse_size("2m") == 2097152);
  CHECK(*parse_size("1G") == 1073741824);
  CHECK(*parse_size("8388608G") == std::int64_t{8388608} << 30);
  CHECK(*parse_size("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (const char* bad :
       {"", "2X", "2MB", "1e6", "-5", "+5", " 5", "5 ", "K", "0x10", "1.5M", "2MM", "9223372036854775808", "8589934592G"}) {
    CAPTURE(bad);
    const auto size = parse_size(bad);
    REQUIRE_FALSE(size.ok());
    CHECK(size.status().code() == gift::Code::invalid_argument);
    CHECK(size.status().message().find("'" + std::string(bad) + "'") != std::string::npos);
  }
}

TEST_CASE("counts, reals, percentages and lists are strict too", "[cli]") {
  CHECK(*parse_count("8", 1) == 8);
  for (const char* bad : {"", "0", "-1", "8K", "1e3", "8.0"}) CHECK_FALSE(parse_count(bad, 1).ok());
  CHECK(*parse_real("1e-3") == 1e-3);
  CHECK(*parse_real("-2.5") == -2.5);
  for (const char* bad : {"", "1e400", "inf", "nan", "1,5", "2x", "0x1p3"}) CHECK_FALSE(parse_real(bad).ok());
  CHECK(*parse_percent("2%") == 0.02);
  CHECK(*parse_percent("0.5%") == 0.005);
  CHECK(*parse_percent("0%") == 0);
  for (const char* bad : {"", "2", "%", "-2%", "-0%", "2%%", "2 %", "0.02"}) CHECK_FALSE(parse_percent(bad).ok());
  CHECK(*parse_list("a,b") == std::vector<std::string>{"a", "b"});
  CHECK(parse_list("a")->size() == 1);
  for (const char* bad : {"", ",", "a,", ",a", "a,,b"}) CHECK_FALSE(parse_list(bad).ok());
}

TEST_CASE("numbers print short and unambiguous", "[cli]") {
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(65536) == "64 KiB");
  CHECK(format_bytes(1.5 * 1048576) == "1.5 MiB");
  CHECK(format_seconds(0.85) == "850 ms");
  CHECK(format_seconds(12.34) == "12.3 s");
  CHECK(format_seconds(125) == "2 min 05 s");
  CHECK(format_seconds(3720) == "1 h 02 min");
  CHECK(format_seconds(-1) == "?");
  CHECK(format_seconds(std::nan("")) == "?");
  CHECK(format_real(0.026512, 3) == "0.0265");
  CHECK(format_real(0.99996, 3) == "1.00");
  CHECK(format_real(1234.4, 3) == "1234");
  CHECK(format_real(1.234e-9, 3) == "1.23e-09");
  CHECK(format_real(-0.5, 2) == "-0.50");
  CHECK(format_real(0, 3) == "0");
  CHECK(format_real(std::nan(""), 3) == "nan");
  CHECK(format_real(-INFINITY, 3) == "-inf");
  CHECK(format_count(4294967296u) == "4 294 967 296");
  CHECK(format_count(999) == "999");
}
