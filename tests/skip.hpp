// Skipping a test case with a printed reason, in Catch2 2.x and 3.x alike. Skips are counted apart from passes.
#pragma once

#include <string>

namespace gift::tests {

/// Makes the running test case count as skipped, whatever else passes in it (a failure stays a failure).
void note_skip(const std::string& reason);

}  // namespace gift::tests

/// Leaves the test case: what it needs is not here. Give a reason a reader can act on.
#define GIFT_SKIP(reason)           \
  do {                              \
    gift::tests::note_skip(reason); \
    SUCCEED(reason);                \
    return;                         \
  } while (false)
