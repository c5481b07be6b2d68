#!/usr/bin/env bash
# Installs what is missing, builds with warnings as errors, runs every test, and says what happened. The last line printed is
# "N passed, N failed, N skipped": test cases over all suites. Exit code 0 only if something passed, nothing failed and every suite ran.
#
#   bash tests/run.sh                 build in build/, run every suite
#   bash tests/run.sh --ci            more: a second compiler, sanitizers, fuzzing, format, installation (what .ci/run does)
#   bash tests/run.sh --build DIR     build elsewhere
#   bash tests/run.sh --no-install    do not call apt-get
#
# CI=true is the same as --ci. No terminal, no standard input and no Python code of ours is needed; Meson brings its own.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
. tests/deps.sh
. tests/suites.sh

ci=0 build=build
[ "${CI:-}" = true ] && ci=1
while [ $# -gt 0 ]; do
  case $1 in
    --ci) ci=1 ;;
    --build) build=${2:?tests/run.sh: --build needs a folder} && shift ;;
    --no-install) GIFT_NO_INSTALL=1 ;;
    -h | --help) sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "tests/run.sh: there is no option $1 (see --help)" >&2 && exit 2 ;;
  esac
  shift
done

started=$SECONDS
groups="build test"
[ $ci = 1 ] && groups="$groups ci"
# shellcheck disable=SC2086
if ! gift_need $groups; then
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi

# Kept from the user where set: one BLAS thread a process, since tests run side by side and ranks share the cores.
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1} LC_ALL=C.UTF-8
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root}

stage "What is here"
found

stage "Build and tests (${CXX:-g++}, warnings are errors)"
if configure "$build" -Dwerror=true -Dfuzz=false && compile "$build"; then
  run_suites "$build" ""
  check examples "examples/allreduce: four ranks in one process" 120 "$build/examples/allreduce"
fi

if [ $ci = 1 ]; then
  . tests/ci/checks.sh
  ci_checks
fi

stage "Result"
summary
echo "time: $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"
last_line
