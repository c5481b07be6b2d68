// A scatter plot with joined points as plain SVG text: linear x, logarithmic y, colours by series, marker shapes by kind, legend.
#pragma once

#include <string>
#include <vector>

namespace gift::cli {

struct PlotPoint {
  double x = 0, y = 0;   ///< points with a value that is not finite, or y <= 0, are left out
  std::size_t kind = 0;  ///< index in Plot::kinds: the marker's shape
  std::string hint;      ///< shown by viewers when the pointer rests on the marker
};

struct PlotSeries {
  std::string label;
  std::vector<PlotPoint> points;  ///< joined by a line in this order
};

struct Plot {
  std::string title, subtitle, x_label, y_label;
  std::vector<std::string> kinds;  ///< names of the marker shapes
  std::vector<PlotSeries> series;
};

/// A whole SVG document (UTF-8). Text is escaped. Nothing outside the document is referred to.
std::string to_svg(const Plot& plot);

}  // namespace gift::cli
