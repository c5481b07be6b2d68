// Entry point of every Catch2 test program. Its last line is "N passed, N failed, N skipped": the true number of test cases,
// which tests/run.sh adds up over all suites. A test case without a single assertion fails.
#include <cstdio>
#include <string>

#include "skip.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using ListenerBase = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using ListenerBase = Catch::TestEventListenerBase;
#endif

namespace {

struct Counts {
  std::size_t passed = 0, failed = 0, skipped = 0;
} counts;

std::string test_name, skip_reason;  // of the test case that is running; no reason: it was not skipped

/// Catch2 2.x cannot skip, so a test case that said GIFT_SKIP has passed in Catch's own summary; here it counts as skipped.
class CountingListener : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    test_name = info.name;
    skip_reason.clear();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.testCases.failed > 0) {
      ++counts.failed;
    } else if (!skip_reason.empty()) {
      ++counts.skipped;
      std::printf("SKIPPED: %s: %s\n", test_name.c_str(), skip_reason.c_str());
    } else {
      ++counts.passed;
    }
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(CountingListener)

void gift::tests::note_skip(const std::string& reason) { skip_reason = reason; }

int main(int argc, char** argv) {
  Catch::Session session;
  const int usage = session.applyCommandLine(argc, argv);
  if (usage != 0) return usage;
  session.configData().warnings = Catch::WarnAbout::NoAssertions;
  const int failures = session.run();
  std::printf("%zu passed, %zu failed, %zu skipped\n", counts.passed, counts.failed, counts.skipped);
  return failures == 0 && counts.failed == 0 ? 0 : 1;
}
