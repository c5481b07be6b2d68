// What a recipe's text must be before the TOML parser sees it. toml++ 3.3 is undefined on non-ASCII characters where it looks for
// blanks (its table of Unicode spaces ends in an "unreachable" that is reached), and it nests, and frees, as deep as a line has
// dots. So it gets to see ASCII only: other characters may stand in "double quotes" that end on their line, where they are
// replaced by their escapes, and in comments, where they are blanked out.
#include <cstdint>

#include "recipe_internal.hpp"
#include "text.hpp"

namespace gift {
namespace {

constexpr std::size_t text_limit_bytes = 1 << 20;
constexpr int dots_a_line = 64;

bool is_plain_ascii(char c) noexcept { return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80; }

/// Walks over the text and keeps track of what it is in: quotes, a comment, or neither.
class TextScan {
 public:
  explicit TextScan(std::string_view text) : text_(text) {}

  /// The fault, or "" and `out` filled.
  std::string run(std::string& out) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool ascii = static_cast<unsigned char>(c) < 0x80;
      const bool plain_quotes = quote_ == "\"";
      if (!ascii && !plain_quotes && !comment_) {
        return "characters other than ASCII must stand in \"double quotes\" or in a comment";
      }
      if (plain_quotes && c == '\\' && at_ + 1 < text_.size() && static_cast<unsigned char>(text_[at_ + 1]) >= 0x80) {
        return "a backslash in front of a character that needs none";
      }
      if (c == '.' && ++dots_ > dots_a_line) return "more dots than a line of a recipe can need";
      if (c == '\n') {
        end_line(out);
      } else if (comment_) {
        out += ascii ? c : '?';
        ++at_;
      } else if (!ascii) {
        escape(out);
      } else {
        step(out);
      }
    }
    return "";
  }
  int line() const { return line_; }

 private:
  void end_line(std::string& out) {
    out += text_[at_++];
    comment_ = false;
    dots_ = 0;
    ++line_;
    if (quote_.size() == 1) quote_ = {};  // not closed: the parser will say so
  }

  /// The character at hand, well-formed UTF-8 of two to four bytes, as \UXXXXXXXX.
  void escape(std::string& out) {
    constexpr char digits[] = "0123456789ABCDEF";
    const auto lead = static_cast<unsigned char>(text_[at_++]);
    std::uint32_t point = lead >= 0xF0 ? lead & 0x07u : lead >= 0xE0 ? lead & 0x0Fu : lead & 0x1Fu;
    for (int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1; more > 0; --more) {
      point = point << 6 | (static_cast<unsigned char>(text_[at_++]) & 0x3Fu);
    }
    out += "\\U";
    for (int shift = 28; shift >= 0; shift -= 4) out += digits[point >> shift & 15];
  }

  /// One ASCII character, an escape, or a quote of three, outside comments.
  void step(std::string& out) {
    const char c = text_[at_];
    std::size_t length = 1;
    if (quote_.empty()) {
      const std::string_view three = text_.substr(at_, 3);
      if (c == '#') comment_ = true;
      if (c == '"' || c == '\'') {
        length = three == "\"\"\"" || three == "'''" ? 3 : 1;
        quote_ = text_.substr(at_, length);
      }
    } else if (c == '\\' && quote_[0] == '"' && at_ + 1 < text_.size() && is_plain_ascii(text_[at_ + 1])) {
      length = 2;
    } else if (text_.substr(at_, quote_.size()) == quote_) {
      length = quote_.size();
      quote_ = {};
    }
    out += text_.substr(at_, length);
    at_ += length;
  }

  std::string_view text_, quote_;
  std::size_t at_ = 0;
  bool comment_ = false;
  int dots_ = 0, line_ = 1;
};

}  // namespace

Result<std::string> prepare_recipe_text(std::string_view text, const std::string& shown_origin) {
  const auto bad = [&](const std::string& where, const std::string& why) {
    return Status(Code::bad_file, shown_origin + where + why);
  };
  if (text.size() > text_limit_bytes) return bad(": ", std::to_string(text.size()) + " bytes, too long for a recipe");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  int line = 1;
  for (std::string_view rest = text; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    if (!is_utf8(rest.substr(0, end))) return bad(":" + std::to_string(line) + ":1: ", "this line is not UTF-8");
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  std::string out;
  TextScan scan(text);
  const std::string fault = scan.run(out);
  if (!fault.empty()) return bad(":" + std::to_string(scan.line()) + ":1: ", fault);
  return out;
}

}  // namespace gift
