// A progress bar on stderr: done, rate, time left. Nothing when stderr is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gift::cli {

class ProgressBar {
 public:
  /// Draws only if `enabled` and stderr is a terminal.
  explicit ProgressBar(bool enabled);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// At most ten drawings a second. A smaller `done` than before starts a new measurement.
  void update(std::int64_t done, std::int64_t total, const std::string& what);
  /// Takes the bar off the screen, so that other output starts on a clean line.
  void clear();
  void disable();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_ = false, drawn_ = false;
  std::int64_t first_done_ = 0, last_done_ = -1;
  Clock::time_point start_, last_drawn_;
};

/// The bar's line for a state, at most `width` characters: "[=====>    ] 5/10 file.safetensors  1.2/s  4.1 s left".
std::string progress_line(std::int64_t done, std::int64_t total, double rate_per_s, const std::string& what, std::size_t width);

}  // namespace gift::cli
