# Parts of tests/run.sh: configuring, compiling, running suites and single checks, and keeping the true counts. Meant to be sourced.

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
: >"$results/counts" # one line a suite: NAME PASSED FAILED SKIPPED NOTE

jobs=$(nproc)
launcher=() # what `meson test` is started by, if not directly

stage() { printf '\n== %s (%d min %02d s)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

# record NAME PASSED FAILED SKIPPED NOTE...
record() {
  local name=$1
  shift
  echo "${name// /_} $*" >>"$results/counts"
}

# Runs a command (or an exported function) with a time limit and no standard input; its output goes to a file, the end of which is shown if it fails.
#   limited SECONDS LOG COMMAND...
limited() {
  local limit=$1 log=$2
  shift 2
  if [ "$(type -t "$1")" = function ]; then
    timeout -k 10 "$limit" bash -c '"$@"' - "$@" >"$log" 2>&1 </dev/null
  else
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
  fi
}

# What this machine has that decides which checks can run.
found() {
  version_of() { command -v "$1" >/dev/null && "$@" 2>/dev/null | head -n 1 || echo "not found"; }
  echo "system:        $(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME"), $(nproc) cores"
  echo "compiler:      $(version_of "${CXX:-g++}" --version)"
  echo "clang++:       $(version_of clang++ --version)"
  echo "Meson:         $(version_of meson --version)"
  echo "MPI:           $(version_of mpirun --version)"
  echo "CUDA toolkit:  $(version_of nvcc --version) (this version of gift has no CUDA backend: not used)"
  echo "ccache:        $(version_of ccache --version)"
}

# configure BUILD OPTIONS...: a folder that is configured already is brought up to date.
configure() {
  local folder=$1 log=$results/configure.log
  shift
  local -a how=(meson setup "$folder" "$@")
  [ -e "$folder/build.ninja" ] && how=(meson setup --reconfigure "$folder" "$@")
  if limited 600 "$log" "${how[@]}"; then
    sed -n '/^gift [0-9]/,/^Found ninja/p' "$log" | grep -v '^Found ninja' | sed '/^ *$/d'
    return 0
  fi
  echo "Configuring $folder failed:"
  tail -n 25 "$log"
  record "configure $folder" 0 1 0 "failed"
  return 1
}

# compile BUILD [TARGETS...]: everything, unless targets are given.
compile() {
  local folder=$1 log=$results/compile.log begin=$SECONDS
  shift
  if limited 3600 "$log" ninja -C "$folder" -j "$jobs" "$@"; then
    echo "compiled $folder in $((SECONDS - begin)) s"
    return 0
  fi
  echo "Compiling $folder failed:"
  grep -E -m 5 -A 5 '(error|Error|FAILED)' "$log" || tail -n 30 "$log"
  record "compile $folder" 0 1 0 "failed"
  return 1
}

# run_suites BUILD LABEL [OPTIONS AND SUITES OF MESON TEST...]: LABEL tells repeated runs apart.
run_suites() {
  local folder=$1 label=$2 log=$results/meson.log name passed failed skipped note code
  shift 2
  rm -f "$folder/meson-logs/testlog.txt"
  limited 3600 "$log" "${launcher[@]}" meson test -C "$folder" --no-rebuild --num-processes "$jobs" "$@"
  code=$?
  grep -E '^ *[0-9]+/[0-9]+ ' "$log"
  if [ ! -e "$folder/meson-logs/testlog.txt" ]; then
    tail -n 5 "$log"
    record "suites of $folder$label" 0 1 0 "did not run"
    return
  fi
  awk -f tests/count.awk "$folder/meson-logs/testlog.txt" >"$results/new"
  # A suite that Meson knows and the log does not (stopped half way) has failed.
  meson test -C "$folder" --no-rebuild --list "$@" 2>/dev/null </dev/null | sed 's/.* \/ //; s/ /_/g' | grep -v '^ninja:' | while read -r name; do
    grep -q "^$name " "$results/new" || echo "$name 0 1 0 did not run (meson test ended with $code)"
  done >>"$results/new"
  while read -r name passed failed skipped note; do
    record "$name$label" "$passed" "$failed" "$skipped" "$note"
    [ "$failed" -eq 0 ] || show_failure "$folder" "$name"
  done <"$results/new"
  grep -h '^SKIPPED: \|^skip ' "$folder/meson-logs/testlog.txt"
}

# The end of what a failed suite printed.
show_failure() {
  echo "---- $2:"
  awk -v want="$2" '
    /^=+ [0-9]+\/[0-9]+ =+$/ { on = 0 }
    /^test: +/ { name = $0; sub(/^test: +/, "", name); sub(/^[^\/]* \/ /, "", name); gsub(/ /, "_", name); on = name == want }
    on && !/^(command|start time):/' "$1/meson-logs/testlog.txt" | tail -n 60
  echo "----"
}

# check SUITE NAME SECONDS COMMAND...: a single check that is a command; it passes with exit code 0.
check() {
  local suite=$1 name=$2 limit=$3 log=$results/check.log code
  shift 3
  limited "$limit" "$log" "$@"
  code=$?
  if [ $code -eq 0 ]; then
    echo "ok     $name"
    record "$suite" 1 0 0 ok
  else
    echo "FAILED $name (exit code $code)"
    tail -n 30 "$log" | sed 's/^/    /'
    record "$suite" 0 1 0 failed
  fi
}

# check_skipped SUITE NAME REASON
check_skipped() {
  echo "skip   $2: $3"
  record "$1" 0 0 1 "$3"
}

# One line a suite; checks of the same name add up.
summary() {
  awk '
    { if (!($1 in seen)) { seen[$1] = 1; order[++count] = $1 } passed[$1] += $2; failed[$1] += $3; skipped[$1] += $4
      if ($3 > 0) { note[$1] = $5; for (k = 6; k <= NF; ++k) note[$1] = note[$1] " " $k } }
    END { printf "%-28s %7s %7s %7s\n", "suite", "passed", "failed", "skipped"
          for (k = 1; k <= count; ++k) { s = order[k]; printf "%-28s %7d %7d %7d  %s\n", s, passed[s], failed[s], skipped[s], note[s] } }' \
    "$results/counts"
}

# The line that is read by machines, and the exit code that goes with it.
last_line() {
  awk '{ passed += $2; failed += $3; skipped += $4 }
       END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit !(failed == 0 && passed > 0) }' "$results/counts"
}
