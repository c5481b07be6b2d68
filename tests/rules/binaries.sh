# Rules about what was built. Sourced by tests/rules/run.sh; a rule takes a library or the folder of a build.

# Only namespace gift and the C functions gift_* are shown.
rule_symbols() {
  nm -DC --defined-only "$1" | sed -E 's/^[0-9a-f]* +[A-Za-z] //' | grep -vE '^(typeinfo for |typeinfo name for |vtable for )?gift::|^gift_'
}

# Nothing that ends the program, prints or reads the environment is called, by inlined third-party code neither. Exceptions may leave
# Eigen and the standard library (bad_alloc) and are caught at the API; they are not forbidden here but in the sources.
rule_undefined() {
  nm -D --undefined-only "$1" | awk '{ print $2 }' | sed 's/@.*//' |
    grep -xE 'exit|_exit|_Exit|quick_exit|abort|printf|fprintf|vprintf|vfprintf|__printf_chk|__fprintf_chk|__vfprintf_chk|puts|fputs|perror|getenv|secure_getenv|system|popen|__assert_fail|_ZSt4cout|_ZSt4cerr|_ZSt4clog' |
    sed "s|^|calls |"
}

# libgift.so needs none of MPI, CUDA, NCCL.
rule_needed() {
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -iE 'mpi|cuda|nccl|cublas|cusolver' | sed 's/^/needs /'
}

# A CPU command opens no file of MPI, CUDA or NCCL; fakes that cannot be loaded lie first in the search path.
rule_not_opened() {
  local program=$1 fakes=$work/fakes name
  shift
  mkdir -p "$fakes"
  for name in libmpi.so.40 libmpi.so libcuda.so.1 libcudart.so.12 libnccl.so.2 libgift_cuda.so; do : >"$fakes/$name"; done
  LD_LIBRARY_PATH=$fakes LD_DEBUG=files LD_DEBUG_OUTPUT=$work/opened timeout 300 "$program" "$@" >"$work/opened.out" 2>&1 ||
    { echo "$program $* failed: " && tail -n 3 "$work/opened.out"; }
  cat "$work"/opened.[0-9]* | grep -oE 'file=[^ ]*' | grep -iE 'mpi|cuda|nccl' | sort -u
  rm -f "$work"/opened.[0-9]*
}

# A shared library that does what the rules forbid.
planted_library() {
  cat >"$work/planted.cpp" <<'END'
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
namespace other { std::map<std::string, int> table; int shown() { std::puts("x"); return table[std::getenv("HOME")]; } }
END
  "$cxx" -std=c++20 -shared -fPIC "$@" "$work/planted.cpp" -o "$work/libplanted.so"
}

binary_rules() {
  local lib=$build/lib/libgift.so gift=$build/cli/gift
  if [ ! -e "$lib" ] || [ ! -x "$gift" ]; then
    fail "binaries: $lib or $gift was not built"
    return
  fi
  for rule in symbols undefined needed; do holds "$rule" "rule_$rule" "$lib"; done
  if nm -DC --defined-only "$lib" | grep -q ' gift::version()'; then pass "symbols: the library shows its API"; else fail "symbols: gift::version is not shown"; fi

  planted_library
  notices "symbols: a name outside gift" '^other::shown' rule_symbols "$work/libplanted.so"
  notices "symbols: a template of the standard library" '^std::' rule_symbols "$work/libplanted.so"
  notices "undefined: getenv" '^calls getenv' rule_undefined "$work/libplanted.so"
  notices "undefined: puts" '^calls puts' rule_undefined "$work/libplanted.so"
  if [ -e "$build/lib/mpi/libgift_mpi.so" ]; then
    notices "needed: a library that needs MPI" '^needs libmpi' rule_needed "$build/lib/mpi/libgift_mpi.so"
    notices "not_opened: gift --version asks MPI for its version" 'mpi' rule_not_opened "$gift" --version
  else
    for name in needed not_opened; do echo "skip $name: planted: this build has no MPI to be noticed" && skipped=$((skipped + 1)); done
  fi
  holds "not_opened: gift verify --backend cpu" rule_not_opened "$gift" verify --backend cpu
}
