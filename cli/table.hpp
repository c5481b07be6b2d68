// Tables for people: aligned columns, numbers to the right, at most 100 columns wide.
#pragma once

#include <string>
#include <vector>

namespace gift::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

/// How a row is coloured on a terminal. Never the only sign of anything: the words say it too.
enum class Mark { none, good, bad };

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  /// One cell a column; missing cells are empty. Give text columns Align::left: only those are shortened to fit.
  void add(std::vector<std::string> cells, Mark mark = Mark::none);
  /// A line across, or text that is not bound to the columns.
  void rule();
  void section(const std::string& text);
  bool empty() const noexcept { return rows_.empty(); }
  /// `colour`: escape codes for a terminal. Lines have no blanks at their ends.
  std::string text(bool colour) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Mark mark = Mark::none;
    bool rule = false;
    bool section = false;
  };
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// Characters as a terminal counts them (UTF-8 continuation bytes are not).
std::size_t display_width(const std::string& text) noexcept;

}  // namespace gift::cli
