// The plot: what is drawn, what is left out, and that the text is well-formed XML.
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "svg_plot.hpp"

using namespace gift::cli;

namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

/// Every element that is opened is closed, in order; enough for what to_svg writes.
bool balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const auto end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.front() == '?' || tag.back() == '/') continue;
    const std::string name = tag.substr(tag.front() == '/', tag.find(' ') - (tag.front() == '/'));
    if (tag.front() != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("a plot draws every finite point, axes and legends", "[cli]") {
  Plot plot{"Title <&> \"quoted\"", "sub", "bits", "error", {"e4m3", "nvfp4"}, {}};
  plot.series.push_back({"euclidean", {{4.5, 0.09, 1, "a < b"}, {8, 0.026, 0, ""}}});
  plot.series.push_back({"deflate", {{6.5, 0.03, 1, ""}, {10, 0, 0, ""}, {10, std::nan(""), 0, ""}, {INFINITY, 0.1, 0, ""}}});
  const std::string svg = to_svg(plot);
  CHECK(balanced(svg));
  CHECK(svg.find("Title &lt;&amp;&gt; &quot;quoted&quot;") != std::string::npos);
  CHECK(svg.find("<title>a &lt; b</title>") != std::string::npos);
  CHECK(count_of(svg, "<polyline") == 2);
  // markers: 3 points, 2 series in the legend, 2 formats in the legend
  CHECK(count_of(svg, "<circle") + count_of(svg, "<polygon") == 3 + 2 + 2);
  CHECK(count_of(svg, "nan") == 0);
  CHECK(count_of(svg, "inf") == 0);
  for (const char* text : {">bits<", ">error<", ">euclidean<", ">deflate<", ">e4m3<", ">nvfp4<", ">0.05<"}) {
    CAPTURE(text);
    CHECK(svg.find(text) != std::string::npos);
  }
}

TEST_CASE("a plot of nothing says so", "[cli]") {
  const std::string svg = to_svg({"t", "s", "x", "y", {"e4m3"}, {{"zero", {{8, 0, 0, ""}}}}});
  CHECK(balanced(svg));
  CHECK(svg.find("no finite figures") != std::string::npos);
  CHECK(count_of(svg, "nan") == 0);
}
