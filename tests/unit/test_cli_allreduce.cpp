// Parts of `gift allreduce-test`: the checker is checked itself, and names are cut where they should be.
#include <cmath>
#include <limits>

#include "allreduce_table.hpp"
#include "catch.hpp"
#include "exact_inputs.hpp"

using namespace gift;
using namespace gift::cli;

TEST_CASE("the exact sum is the sum of the inputs, at any number of ranks", "[cli][allreduce]") {
  for (const char* text : {"fp32", "bf16", "e4m3", "e5m2:row", "mxfp8", "nvfp4", "mxfp4", "e4m3:block:8"})
    for (int world = 1; world <= 9; ++world) {
      const FormatSpec format = parse_format(text).value();
      int wrong = 0, non_zero = 0;
      for (std::int64_t i = 0; i < 7 * 100; ++i) {
        float sum = 0;
        for (int rank = 0; rank < world; ++rank) sum += exact_input(format, 100, i, rank, world);
        wrong += sum != exact_sum(format, 100, i);
        non_zero += sum != 0;
      }
      CHECK(wrong == 0);
      CHECK(non_zero > 400);
    }
}

TEST_CASE("the checker counts what is wrong, one ulp and NaN included", "[cli][allreduce]") {
  const FormatSpec format = parse_format("nvfp4").value();
  std::vector<float> values(200);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = exact_sum(format, 50, static_cast<std::int64_t>(i));
  CHECK(count_wrong(format, 50, values) == 0);
  values[0] = std::nextafter(values[0], 1e9F);
  CHECK(count_wrong(format, 50, values) == 1);
  values[199] = std::numeric_limits<float>::quiet_NaN();
  CHECK(count_wrong(format, 50, values) == 2);
  values.assign(values.size(), 0.0F);
  CHECK(count_wrong(format, 50, values) > 100);
}

TEST_CASE("common ends of layer names", "[cli][allreduce]") {
  using Ends = std::pair<std::string, std::string>;
  CHECK(common_ends({"layers.1.fc1.weight", "layers.1.fc2.weight", "all"}) == Ends("layers.1.", ".weight"));
  CHECK(common_ends({"layers.1.fc1.weight", "all"}) == Ends("", ""));
  CHECK(common_ends({"all"}) == Ends("", ""));
  CHECK(common_ends({"a.weight", "ab.weight"}) == Ends("", ".weight"));
  CHECK(common_ends({"x.a", "y.b"}) == Ends("", ""));
  CHECK(common_ends({"a.b.c", "a.b"}) == Ends("a.", ""));
}
