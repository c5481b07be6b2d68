// Drawing the progress bar.
#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "numbers.hpp"

namespace gift::cli {
namespace {

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1u : 79u;
}

}  // namespace

ProgressBar::ProgressBar(bool enabled) : enabled_(enabled && isatty(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(std::int64_t done, std::int64_t total, const std::string& what) {
  if (!enabled_) return;
  const auto now = Clock::now();
  if (done < last_done_ || last_done_ < 0) {
    start_ = now;
    first_done_ = done;
    last_drawn_ = Clock::time_point{};
  }
  last_done_ = done;
  if (now - last_drawn_ < std::chrono::milliseconds(100) && done != total) return;
  last_drawn_ = now;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed_s > 0 ? static_cast<double>(done - first_done_) / elapsed_s : 0;
  std::fprintf(stderr, "\r\x1b[K%s", progress_line(done, total, rate, what, terminal_width()).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void ProgressBar::disable() {
  clear();
  enabled_ = false;
}

std::string progress_line(std::int64_t done, std::int64_t total, double rate_per_s, const std::string& what, std::size_t width) {
  constexpr std::int64_t bar_chars = 24;
  done = std::clamp<std::int64_t>(done, 0, std::max<std::int64_t>(total, 0));
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  const auto filled = static_cast<std::size_t>(share * bar_chars);
  std::string line = "[" + std::string(filled, '=') + (filled < bar_chars ? ">" : "");
  line.resize(bar_chars + 1, ' ');
  line += "] " + std::to_string(done) + "/" + std::to_string(total);
  if (rate_per_s > 0) {
    line += "  " + format_real(rate_per_s, 3) + "/s  " + format_seconds(static_cast<double>(total - done) / rate_per_s) + " left";
  }
  line += "  " + what;
  if (line.size() > width) line.resize(width);
  return line;
}

}  // namespace gift::cli
