// Verify: does this machine compute the bytes that the specification says? Every codec, scale, transform, sum and packet of a
// backend, against the scalar reference and against tables made by an independent program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gift/calibrate.hpp"
#include "gift/export.hpp"
#include "gift/status.hpp"

namespace gift {

struct VerifyOptions {
  std::string backend = "cpu";
  bool exhaustive = false;  ///< all 2^32 FP32 inputs of E4M3 and E5M2 (and E2M1) against the tables
  std::uint64_t seed = 1;   ///< of the random cover
};

struct VerifyRow {
  std::string what;            ///< "e4m3 conversion", "nvfp4 encode", "deflate both transform", ...
  std::string against;         ///< "table", "reference", "exact sum"
  std::uint64_t compared = 0;  ///< values or bytes
  std::uint64_t different = 0;
  std::string first;  ///< the first difference: input, index, got, expected; empty if none
};

struct VerifyReport {
  std::string backend, device;
  std::vector<VerifyRow> rows;
  GIFT_API bool passed() const;  ///< at least one row, each compared something, nothing different
};

/// Code::unavailable if the backend cannot be opened: never a pass.
GIFT_API Result<VerifyReport> verify(const VerifyOptions& options, const Progress& progress);

/// Says how `value` rounds in `format`: rule, the two neighbouring codes, their values, the code taken.
GIFT_API Result<std::string> explain_rounding(const std::string& format, float value);

}  // namespace gift
