#!/usr/bin/env bash
# Runs the command line's cases: tests/cli/NAME.cmd is a bash script; what it prints must be NAME.out (stdout) and NAME.err
# (stderr; a missing file means nothing may be printed), and it must exit with the code it declares.
#
#   tests/cli/run.sh PATH/TO/gift [NAME...]
#
# Comment lines of a case that mean something:
#   # exit: 2          the exit code (0 unless given)
#   # needs: mpi       skipped, with the reason printed, where this is not to be had (see `missing` below)
#   # timeout: 300     seconds (60 unless given)
# A case runs in an empty folder of its own with GIFT (the program), FIXTURES, SHARED (the full gradient dumps) and MPIRUN set.
# In an expected file `{*}` stands for any characters of a line, and a line `{...}` for any number of lines.
# The last line printed is: N passed, N failed, N skipped. Exit code 1 if anything failed or nothing passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { echo "usage: tests/cli/run.sh PATH/TO/gift [NAME...]" >&2; exit 2; }
GIFT=$(realpath "$1")
shift
[ -x "$GIFT" ] || { echo "tests/cli/run.sh: $GIFT is not a program" >&2; exit 2; }
export GIFT
export FIXTURES=$root/fixtures
export SHARED=$root/../shared/gradients
export MPIRUN="mpirun --oversubscribe"
# Containers run as root and with fewer cores than ranks; idle ranks must not burn the cores that others need.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OPENBLAS_NUM_THREADS=1 LC_ALL=C

# Prints why a need is not met; nothing if it is.
missing() {
  case $1 in
    mpi)
      command -v mpirun >/dev/null || { echo "mpirun is not installed"; return; }
      "$GIFT" --version | grep -q '^MPI: not built' && echo "this build has no MPI"
      ;;
    no-cuda) "$GIFT" --version | grep -q '^CUDA: not built' || echo "this build has CUDA" ;;
    shared) [ -e "$SHARED/README.md" ] || echo "the full gradient dumps are not here (../shared/gradients)" ;;
    *) command -v "$1" >/dev/null || echo "$1 is not installed" ;;
  esac
}

# A line of an expected file as a bash pattern.
pattern() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\*/\\*}
  text=${text//\?/\\?}
  text=${text//\[/\\[}
  text=${text//\]/\\]}
  printf '%s' "${text//"{\*}"/*}"
}

# same EXPECTED ACTUAL: prints the first difference; nothing if there is none.
same() {
  local -a want=() got=()
  [ -e "$1" ] && mapfile -t want <"$1"
  mapfile -t got <"$2"
  local i=0 j=0
  while [ $i -lt ${#want[@]} ]; do
    if [ "${want[i]}" = "{...}" ]; then
      i=$((i + 1))
      [ $i -eq ${#want[@]} ] && return
      # shellcheck disable=SC2053
      while [ $j -lt ${#got[@]} ] && ! [[ ${got[j]} == $(pattern "${want[i]}") ]]; do j=$((j + 1)); done
      continue
    fi
    if [ $j -ge ${#got[@]} ]; then
      echo "line $((j + 1)) is missing, expected: ${want[i]}"
      return
    fi
    # shellcheck disable=SC2053
    if ! [[ ${got[j]} == $(pattern "${want[i]}") ]]; then
      echo "line $((j + 1)) is: ${got[j]}"
      echo "      expected: ${want[i]}"
      return
    fi
    i=$((i + 1))
    j=$((j + 1))
  done
  [ $j -ge ${#got[@]} ] || echo "line $((j + 1)) is not expected: ${got[j]}"
}

declared() { sed -n "s/^# $1: *//p" "$2"; }

passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run_case() {
  local name=$1 case=$here/$1.cmd need why code want problem=""
  if [ ! -e "$case" ]; then
    echo "FAIL $name: no such case"
    failed=$((failed + 1))
    return
  fi
  for need in $(declared needs "$case"); do
    why=$(missing "$need")
    if [ -n "$why" ]; then
      echo "skip $name: $why"
      skipped=$((skipped + 1))
      return
    fi
  done
  want=$(declared exit "$case")
  mkdir "$work/$name"
  local limit
  limit=$(declared timeout "$case")
  (cd "$work/$name" && timeout "${limit:-60}" bash "$case" >"$work/$name.out" 2>"$work/$name.err" </dev/null)
  code=$?
  [ "$code" -eq "${want:-0}" ] || problem="exit code $code, expected ${want:-0}"
  local stream difference
  for stream in out err; do
    difference=$(same "$here/$name.$stream" "$work/$name.$stream")
    [ -z "$difference" ] || problem="$problem"$'\n'"    std$stream $difference"
  done
  if [ -z "$problem" ]; then
    echo "ok   $name"
    passed=$((passed + 1))
  else
    echo "FAIL $name: ${problem#$'\n'    }"
    [ -s "$work/$name.err" ] && head -n 5 "$work/$name.err" | sed 's/^/    stderr said: /'
    failed=$((failed + 1))
  fi
}

if [ $# -gt 0 ]; then
  for name in "$@"; do run_case "$name"; done
else
  for case in "$here"/*.cmd; do run_case "$(basename "$case" .cmd)"; done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
