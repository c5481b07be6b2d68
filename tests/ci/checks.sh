# What the continuous integration checks beyond the suites of one build. Sourced by tests/run.sh --ci.

ci_checks() {
  :
}
