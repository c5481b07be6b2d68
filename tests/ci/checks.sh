# What the continuous integration checks beyond the suites of one build. Sourced by tests/run.sh --ci; every check adds to the counts.
# Three more builds, so that two cores finish in time: clang++ with ASan, UBSan and the fuzz targets; clang++ with TSan, rank threads
# only; g++ with assertions compiled out, as GNU C++ and optimised, which is then installed.
. tests/ci/installed.sh

ci_checks() {
  stage "Format and refusals"
  check_format
  check_refusals
  stage "clang++ with AddressSanitizer and UndefinedBehaviorSanitizer"
  address_build "$build-asan"
  stage "clang++ with ThreadSanitizer: ranks as threads"
  thread_build "$build-tsan"
  stage "Release: no assertions, GNU C++; installed"
  release_build "$build-release"
  stage "Quick start"
  check quickstart "examples/quickstart.sh on this machine" 900 env GIFT_NO_INSTALL=1 bash examples/quickstart.sh --build "$build"
}

# Versions of clang-format disagree about the same style: the one of Debian 12 is what the sources are held to.
check_format() {
  local version
  version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
  if [ "$version" = 14 ]; then
    check format "clang-format 14" 300 sh -c \
      "find lib ref cuda cli tests examples -name '*.[ch]pp' -o -name '*.h' | sort | xargs clang-format --dry-run -Werror"
  else
    check_skipped format "clang-format" "this is version ${version:-none}, the sources follow version 14"
  fi
}

# What must not configure.
check_refusals() {
  local flag
  for flag in CXXFLAGS=-ffast-math CXXFLAGS=-Ofast LDFLAGS=-ffast-math 'CXXFLAGS=-O2 -ffp-contract=fast'; do
    check refusals "$flag is refused" 120 refused 'change the bytes on the wire' env "$flag" meson setup "$results/refused"
  done
  check refusals "-Dcpp_args=-ffast-math is refused" 120 refused 'change the bytes on the wire' meson setup "$results/refused" -Dcpp_args=-ffast-math
  check refusals "-Dcuda=enabled is refused" 120 refused 'has no CUDA backend' meson setup "$results/refused" -Dcuda=enabled
  check refusals "-Dfuzz=true with g++ is refused" 120 refused 'needs clang' env CXX=g++ meson setup "$results/refused" -Dfuzz=true
}

# refused PATTERN COMMAND...: the command fails and says why. (A new shell each, so `check` can put a time limit on it.)
refused() {
  local pattern=$1 said
  shift
  rm -rf "$results/refused"
  if said=$("$@" 2>&1); then
    echo "was accepted: $*" && return 1
  fi
  echo "$said" | grep -q "ERROR.*$pattern" || { echo "refused for another reason:" && echo "$said" | tail -n 3 && return 1; }
}
export -f refused
export results

# Leaks are looked for where only our code runs; MPI's own are not ours to list.
address_build() {
  local folder=$1 leaks=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  if ! CC=clang CXX=clang++ configure "$folder" -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true \
    -Dbuildtype=debugoptimized -Doptimization=1 || ! compile "$folder"; then return; fi
  if ! leak_sanitizer_works; then
    echo "note: LeakSanitizer cannot run here (a container without ptrace): leaks are not looked for"
    leaks=0
  fi
  ASAN_OPTIONS=detect_leaks=$leaks:strict_string_checks=1 run_suites "$folder" "+asan" --timeout-multiplier 4 --no-suite scripts
  ASAN_OPTIONS=detect_leaks=0 run_suites "$folder" "+asan" --timeout-multiplier 4 --suite scripts --no-suite rules
  check fuzz "a minute of fuzzing" 900 env ASAN_OPTIONS=detect_leaks=$leaks bash tests/fuzz/run.sh 60 "$folder"
  unset UBSAN_OPTIONS
}

leak_sanitizer_works() {
  echo 'int main() { return 0; }' >"$results/leak.cpp"
  clang++ -fsanitize=address "$results/leak.cpp" -o "$results/leak" 2>/dev/null && ASAN_OPTIONS=detect_leaks=1 "$results/leak" 2>/dev/null
}

# The runtime of ThreadSanitizer needs addresses where it expects them, so without randomisation where that can be had.
thread_build() {
  local folder=$1
  local -a fixed=(setarch "$(uname -m)" -R)
  "${fixed[@]}" true 2>/dev/null || fixed=()
  if CC=clang CXX=clang++ configure "$folder" -Dwerror=true -Db_sanitize=thread -Db_lundef=false -Dmpi=disabled -Doptimization=1 &&
    compile "$folder" tests/ranks; then
    launcher=("${fixed[@]}")
    TSAN_OPTIONS=halt_on_error=1 run_suites "$folder" "+tsan" --timeout-multiplier 6 ranks
    launcher=()
  fi
}

release_build() {
  local folder=$1 targets
  rm -rf "$folder-prefix"
  configure "$folder" -Dwerror=true -Dbuildtype=release -Db_ndebug=true -Dcpp_std=gnu++20 "-Dprefix=$PWD/$folder-prefix" || return
  targets=$(ninja -C "$folder" -t targets all | grep -oE '^(cli/gift|lib/.*libgift[a-z_]*\.so\.[0-9.]+|tests/conformance|examples/allreduce):' | tr -d ':' | sort -u)
  # shellcheck disable=SC2086
  compile "$folder" $targets || return
  run_suites "$folder" "+ndebug" --timeout-multiplier 4 conformance
  installed_checks "$folder" "$PWD/$folder-prefix"
}
