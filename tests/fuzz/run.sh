#!/usr/bin/env bash
# Fuzzes every target for an equal share of SECONDS with ASan and UBSan; any crash, hang or leak fails.
#
#   tests/fuzz/run.sh SECONDS [BUILD_DIR]
#
# BUILD_DIR (default: build-fuzz) is configured with clang++ if it is new. New inputs that reach new code are kept in
# BUILD_DIR/corpus and used by the next run; what crashes is left in BUILD_DIR/crashes. Last line: N passed, N failed, N skipped.
set -u -o pipefail
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [BUILD_DIR]}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "SECONDS must be a whole number, not '$seconds'" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build-fuzz}
if ! command -v clang++ > /dev/null; then
  echo "skip fuzzing: clang++ is not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
if [ ! -f "$build/build.ninja" ]; then
  CC=clang CXX=clang++ meson setup "$build" "$root" -Dfuzz=true -Dmpi=disabled -Dbuildtype=debugoptimized \
    -Db_sanitize=address,undefined -Db_lundef=false > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
fi
targets=(safetensors recipe packet basis)
ninja -C "$build" "${targets[@]/#/tests/fuzz_}" > "$build/fuzz-build.log" 2>&1 || { tail -50 "$build/fuzz-build.log"; exit 1; }

share=$((seconds / ${#targets[@]}))
[ "$share" -gt 0 ] || share=1
mkdir -p "$build/crashes"
passed=0 failed=0
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus"
  seeds=$root/fixtures/hostile
  [ "$target" = safetensors ] || seeds=$seeds/$target
  [ "$target" != basis ] || cp -n "$root/fixtures/golden/bases_v1.safetensors" "$corpus/"
  log=$build/fuzz-$target.log
  if UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "$build/tests/fuzz_$target" -max_total_time="$share" -timeout=10 \
      -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/crashes/$target-" "$corpus" "$seeds" > "$log" 2>&1; then
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ "${executions:-0}" -gt 0 ]; then
      echo "pass fuzz_$target: $executions executions in $share s, $(find "$corpus" -type f | wc -l) inputs kept"
      passed=$((passed + 1))
      continue
    fi
  fi
  echo "FAIL fuzz_$target: see $log"
  tail -30 "$log"
  failed=$((failed + 1))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
