// Laying out tables.
#include "table.hpp"

#include <algorithm>
#include <numeric>

namespace gift::cli {
namespace {

constexpr std::size_t max_width = 100, gap = 2, least_width = 8;
constexpr const char* colours[] = {"", "\x1b[32m", "\x1b[31m"};

/// Keeps both ends, since tensor and file names differ there: "layers.1...weight".
std::string shortened(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 || characters.empty()) characters.emplace_back();
    characters.back() += c;
  }
  const std::size_t tail = (width - 2) / 2, head = width - 2 - tail;
  std::string out;
  for (std::size_t k = 0; k < head; ++k) out += characters[k];
  out += "..";
  for (std::size_t k = characters.size() - tail; k < characters.size(); ++k) out += characters[k];
  return out;
}

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::size_t used = display_width(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return align == Align::right ? blanks + text : text + blanks;
}

std::string wrapped(std::string line, const char* colour) {
  line.erase(line.find_last_not_of(' ') + 1);
  if (*colour) line = colour + line + "\x1b[0m";
  return line + "\n";
}

}  // namespace

std::size_t display_width(const std::string& text) noexcept {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells, Mark mark) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), mark});
}

void Table::rule() { rows_.push_back({{}, Mark::none, true}); }
void Table::section(const std::string& text) { rows_.push_back({{text}, Mark::none, false, true}); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    std::size_t width = display_width(columns_[k].title);
    for (const auto& row : rows_) {
      if (!row.rule && !row.section) width = std::max(width, display_width(row.cells[k]));
    }
    widths.push_back(width);
  }
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), gap * (widths.empty() ? 0 : widths.size() - 1));
  };
  while (total() > max_width) {  // take from the widest text column until all fits or all of them are short
    std::size_t* widest = nullptr;
    for (std::size_t k = 0; k < widths.size(); ++k) {
      const std::size_t least = std::max(least_width, display_width(columns_[k].title));
      if (columns_[k].align == Align::left && widths[k] > least && (!widest || widths[k] > *widest)) widest = &widths[k];
    }
    if (!widest) break;
    --*widest;
  }
  return widths;
}

std::string Table::text(bool colour) const {
  const auto width = widths();
  const auto line = [&](const auto& cell) {
    std::string out;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (k) out.append(gap, ' ');
      const std::string text = columns_[k].align == Align::left ? shortened(cell(k), width[k]) : cell(k);
      out += padded(text, width[k], columns_[k].align);
    }
    return out;
  };
  std::string out = wrapped(line([&](std::size_t k) { return columns_[k].title; }), colour ? "\x1b[1m" : "");
  const std::size_t full = std::accumulate(width.begin(), width.end(), gap * (width.empty() ? 0 : width.size() - 1));
  for (const auto& row : rows_) {
    if (row.rule) {
      out += std::string(full, '-') + "\n";
    } else if (row.section) {
      out += wrapped(shortened(row.cells[0], max_width), "");
    } else {
      out += wrapped(line([&](std::size_t k) { return row.cells[k]; }), colour ? colours[static_cast<int>(row.mark)] : "");
    }
  }
  return out;
}

}  // namespace gift::cli
