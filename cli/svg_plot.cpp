// Drawing the plot: the data area to the left, legends to the right.
#include "svg_plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "numbers.hpp"

namespace gift::cli {
namespace {

constexpr double left = 76, top = 64, area_width = 520, area_height = 420, legend_x = left + area_width + 28, row_height = 19;
// Told apart by lightness as well as by hue; later series repeat them dashed.
constexpr const char* palette[] = {"#222222", "#999999", "#d55e00", "#e69f00", "#0072b2", "#56b4e9",
                                   "#009e73", "#004d40", "#cc79a7", "#7a3e9d", "#b00020", "#8c6d31"};
constexpr std::size_t colours = std::size(palette);

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + escaped(text) + "</text>\n";
}

std::string line_from(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" " +
         attributes + "/>\n";
}

std::string marker(std::size_t kind, double x, double y, const std::string& colour, const std::string& hint) {
  const auto corners = [&](std::initializer_list<std::pair<double, double>> offsets) {
    std::string points = "<polygon points=\"";
    for (const auto& [dx, dy] : offsets) points += number(x + dx) + "," + number(y + dy) + " ";
    points.back() = '"';
    return points;
  };
  std::string shape;
  switch (kind % 6) {
    case 0:
      shape = "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"4.5\"";
      break;
    case 1:
      shape = corners({{-4.2, -4.2}, {4.2, -4.2}, {4.2, 4.2}, {-4.2, 4.2}});
      break;
    case 2:
      shape = corners({{0, -5.6}, {5.2, 4}, {-5.2, 4}});
      break;
    case 3:
      shape = corners({{0, -5.8}, {5.8, 0}, {0, 5.8}, {-5.8, 0}});
      break;
    case 4:
      shape = corners({{0, 5.6}, {5.2, -4}, {-5.2, -4}});
      break;
    default:
      shape = corners({{-5, -1.6},
                       {-1.6, -1.6},
                       {-1.6, -5},
                       {1.6, -5},
                       {1.6, -1.6},
                       {5, -1.6},
                       {5, 1.6},
                       {1.6, 1.6},
                       {1.6, 5},
                       {-1.6, 5},
                       {-1.6, 1.6},
                       {-5, 1.6}});
      break;
  }
  shape += " fill=\"" + colour + "\" stroke=\"#ffffff\" stroke-width=\"0.8\"";
  return shape +
         (hint.empty() ? "/>\n" : "><title>" + escaped(hint) + "</title></" + (kind % 6 == 0 ? "circle" : "polygon") + ">\n");
}

bool drawable(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y) && point.y > 0; }

/// The axes: data ranges widened to ticks, and where a value lies on the page.
struct Axes {
  double x_low = 0, x_high = 1, x_step = 1, log_low = -1, log_high = 0;
  bool any = false;

  explicit Axes(const Plot& plot) {
    double x_min = INFINITY, x_max = 0, y_min = INFINITY, y_max = 0;
    for (const auto& series : plot.series) {
      for (const auto& point : series.points) {
        if (!drawable(point)) continue;
        any = true;
        x_min = std::min(x_min, point.x);
        x_max = std::max(x_max, point.x);
        y_min = std::min(y_min, point.y);
        y_max = std::max(y_max, point.y);
      }
    }
    if (!any) return;
    x_step = x_max > 20 ? 4 : x_max > 9 ? 2 : 1;
    x_low = std::max(0.0, std::floor(x_min / x_step - 0.25) * x_step);
    x_high = (std::floor(x_max / x_step + 0.25) + 1) * x_step;
    log_low = std::log10(y_min) - 0.08;
    log_high = std::log10(y_max) + 0.08;
    if (log_high - log_low < 1) log_low = log_high - 1;  // at least a decade, so that small differences stay small
  }
  double x(double value) const { return left + (value - x_low) / (x_high - x_low) * area_width; }
  double y(double value) const { return top + (log_high - std::log10(value)) / (log_high - log_low) * area_height; }
};

std::string draw_axes(const Plot& plot, const Axes& axes) {
  constexpr const char* tick_text = "font-size=\"12\" fill=\"#333\"";
  const double bottom = top + area_height;
  std::string out;
  for (double value = axes.x_low; value <= axes.x_high + 1e-9; value += axes.x_step) {
    out += line_from(axes.x(value), top, axes.x(value), bottom, "stroke=\"#eeeeee\"");
    out += text_at(axes.x(value), bottom + 18, (std::string(tick_text) + " text-anchor=\"middle\"").c_str(),
                   std::to_string(std::lround(value)));
  }
  for (int decade = static_cast<int>(std::floor(axes.log_low)); decade <= axes.log_high; ++decade) {
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10.0, decade), place = std::log10(value);
      if (place < axes.log_low || place > axes.log_high) continue;
      out += line_from(left, axes.y(value), left + area_width, axes.y(value),
                       digit == 1 ? "stroke=\"#bbbbbb\"" : "stroke=\"#eeeeee\"");
      out +=
          text_at(left - 8, axes.y(value) + 4, (std::string(tick_text) + " text-anchor=\"end\"").c_str(), format_real(value, 1));
    }
  }
  out += "<rect x=\"" + number(left) + "\" y=\"" + number(top) + "\" width=\"" + number(area_width) + "\" height=\"" +
         number(area_height) + "\" fill=\"none\" stroke=\"#333333\"/>\n";
  out += text_at(left + area_width / 2, bottom + 42, "font-size=\"13\" text-anchor=\"middle\"", plot.x_label);
  out += "<g transform=\"translate(18 " + number(top + area_height / 2) + ") rotate(-90)\">" +
         text_at(0, 0, "font-size=\"13\" text-anchor=\"middle\"", plot.y_label) + "</g>\n";
  return out;
}

std::string stroke_of(std::size_t series) {
  return "stroke=\"" + std::string(palette[series % colours]) + "\" stroke-width=\"1.4\"" +
         (series / colours % 2 ? " stroke-dasharray=\"5 3\"" : "");
}

std::string draw_series(const Plot& plot, const Axes& axes) {
  std::string lines, markers;
  for (std::size_t k = 0; k < plot.series.size(); ++k) {
    std::string path;
    for (const auto& point : plot.series[k].points) {
      if (!drawable(point)) continue;
      path += number(axes.x(point.x)) + "," + number(axes.y(point.y)) + " ";
      markers += marker(point.kind, axes.x(point.x), axes.y(point.y), palette[k % colours], point.hint);
    }
    if (!path.empty()) path.pop_back();
    lines += "<polyline points=\"" + path + "\" fill=\"none\" opacity=\"0.55\" " + stroke_of(k) + "/>\n";
  }
  return lines + markers;
}

std::string draw_legend(const Plot& plot, double& bottom) {
  double y = top + 8;
  std::string out = text_at(legend_x, y, "font-size=\"13\" font-weight=\"bold\"", "coordinates");
  for (std::size_t k = 0; k < plot.series.size(); ++k) {
    y += row_height;
    out += line_from(legend_x, y - 4, legend_x + 22, y - 4, stroke_of(k) + " stroke-opacity=\"1\"");
    out += marker(0, legend_x + 11, y - 4, palette[k % colours], "");
    out += text_at(legend_x + 30, y, "font-size=\"12\"", plot.series[k].label);
  }
  y += row_height * 1.8;
  out += text_at(legend_x, y, "font-size=\"13\" font-weight=\"bold\"", "format");
  for (std::size_t k = 0; k < plot.kinds.size(); ++k) {
    y += row_height;
    out += marker(k, legend_x + 11, y - 4, "#555555", "");
    out += text_at(legend_x + 30, y, "font-size=\"12\"", plot.kinds[k]);
  }
  bottom = y + 20;
  return out;
}

}  // namespace

std::string to_svg(const Plot& plot) {
  const Axes axes(plot);
  double legend_bottom = 0;
  std::string body = draw_axes(plot, axes) + draw_series(plot, axes) + draw_legend(plot, legend_bottom);
  if (!axes.any)
    body += text_at(left + area_width / 2, top + area_height / 2, "font-size=\"14\" text-anchor=\"middle\"", "no finite figures");
  std::size_t longest = 12;
  for (const auto& series : plot.series) longest = std::max(longest, series.label.size());
  const double width = legend_x + 40 + 6.2 * static_cast<double>(longest);
  const double height = std::max(top + area_height + 60, legend_bottom);
  const std::string size = "width=\"" + number(width) + "\" height=\"" + number(height) + "\" viewBox=\"0 0 " + number(width) +
                           " " + number(height) + "\"";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
         " font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#ffffff\"/>\n" +
         text_at(left, 26, "font-size=\"17\" font-weight=\"bold\"", plot.title) +
         text_at(left, 47, "font-size=\"12\" fill=\"#555\"", plot.subtitle) + body + "</svg>\n";
}

}  // namespace gift::cli
