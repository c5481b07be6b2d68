# Rules about the text of the sources. Sourced by tests/rules/run.sh; a rule takes the folder of the sources.

# Sources without comments and without the insides of strings, one line each: FILE:NUMBER:CODE.
code_of() {
  awk 'FNR == 1 { in_comment = 0 }
    { line = $0
      gsub(/\\./, "", line)
      gsub(/"[^"]*"/, "\"\"", line)
      gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
      sub(/\/\/.*/, "", line)
      if (in_comment) { if (line !~ /\*\//) next; sub(/.*\*\//, "", line); in_comment = 0 }
      if (line ~ /\/\*/) { sub(/\/\*.*/, "", line); in_comment = 1 }
      print FILENAME ":" FNR ":" line }' "$@" /dev/null
}

files_in() { # files_in ROOT FOLDER...: C++ sources and headers, relative to ROOT
  local root=$1 folder
  shift
  for folder in "$@"; do
    [ -d "$root/$folder" ] && (cd "$root" && find "$folder" -name '*.[ch]pp' -o -name '*.h' -o -name '*.cu' | sort)
  done
}

# Arrows: cli and examples see public headers and their own; lib sees neither ref nor cuda; ref and cuda never meet.
rule_arrows() {
  local root=$1 file include area
  files_in "$root" cli examples lib ref cuda | while read -r file; do
    area=${file%%/*}
    sed -nE 's/^ *# *include *[<"]([^>"]*)[>"].*/\1/p' "$root/$file" | while read -r include; do
      case $area:$include in
        *:*../*) echo "$file includes $include: paths that climb hide where a header belongs" ;;
        cli:gift/* | examples:gift/*)
          [ -e "$root/lib/include/$include" ] || [ -e "$root/lib/mpi/include/$include" ] || echo "$file includes $include, which is not a public header"
          ;;
        cli:*.hpp | examples:*.hpp)
          [ -e "$root/$(dirname "$file")/$include" ] || case $include in
            CLI/* | nlohmann/*) ;;
            *) echo "$file includes $include: $area may see public headers and its own only" ;;
          esac
          ;;
        lib:ref_* | lib:fast_* | lib:cuda_*)
          [ "$file" = lib/registry.cpp ] || echo "$file includes $include: only lib/registry.cpp may name a backend"
          ;;
        ref:cuda* | ref:nccl* | cuda:ref_* | cuda:fast_*) echo "$file includes $include: the CPU and the GPU backend must not meet" ;;
      esac
    done
  done
}

# Public headers show the standard library and each other, nothing else; MPI only in gift/mpi.hpp.
rule_public_headers() {
  local root=$1 file include
  files_in "$root" lib/include lib/mpi/include | while read -r file; do
    sed -nE 's/^ *# *include *[<"]([^>"]*)[>"].*/\1/p' "$root/$file" | while read -r include; do
      case $include in
        gift/*) [ -e "$root/lib/include/$include" ] || echo "$file includes $include, which is not a public header" ;;
        mpi.h) [ "$file" = lib/mpi/include/gift/mpi.hpp ] || echo "$file includes mpi.h" ;;
        *.* | */*) [ "$include" = stdint.h ] || [ "$include" = stddef.h ] || echo "$file includes $include" ;;
      esac
    done
    [ "$file" = lib/mpi/include/gift/mpi.hpp ] ||
      code_of "$root/$file" | grep -E '\b(Eigen|nlohmann|toml)::|\b(MPI_[A-Z]|nccl[A-Z]|cuda[A-Z])' | sed "s|^$root/||"
  done
}

# Third parties stay where they belong: Eigen and LAPACK in ref_linalg.cpp (and the version), MPI in lib/mpi.
rule_third_parties() {
  local root=$1
  (cd "$root" && files_in . lib ref cli examples | xargs grep -nE '# *include *[<"](Eigen/|lapacke|cblas|mpi\.h|cuda|nccl)' |
    grep -vE '^(\./)?(ref/ref_linalg\.cpp|lib/version\.cpp):[0-9]+:# *include *[<"](Eigen/|lapacke|cblas)' |
    grep -vE '^(\./)?lib/mpi/[^:]*:[0-9]+:# *include *[<"]mpi\.h')
}

# The library returns a Status: it does not end the program, print, read the environment or throw. Not `snprintf`, which prints
# nothing, nor methods that happen to have such a name.
rule_calls() {
  local root=$1 call='(^|[^A-Za-z0-9_.>])(exit|_Exit|_exit|quick_exit|printf|fprintf|vprintf|vfprintf|puts|fputs|perror|getenv|secure_getenv|setenv|putenv|system|popen)[[:space:]]*\('
  (cd "$root" && code_of $(files_in . lib ref cuda) | sed 's|^\./||' |
    grep -E "$call|(^|[^A-Za-z0-9_.>])(std::)?abort[[:space:]]*\([[:space:]]*\)|\bassert[[:space:]]*\(|std::(cout|cerr|clog|terminate)|\bthrow\b")
}

# Files that people can read in one sitting. Tables of numbers (fixtures) are not read.
rule_lengths() {
  local root=$1 limit=400
  (cd "$root" && find lib ref cuda cli tests examples man meson.build README.md -type f \( -name '*.[ch]pp' -o -name '*.h' -o -name '*.cu' -o -name '*.sh' \
    -o -name meson.build -o -name README.md \) 2>/dev/null | while read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le $limit ] || echo "$file has $lines lines; the limit is $limit"
  done)
}

# A file opens by saying what it is for.
rule_opening_comment() {
  local root=$1
  (cd "$root" && files_in . lib ref cuda cli tests examples | while read -r file; do
    head -n 1 "$file" | grep -qE '^(//|/\*)' || echo "$file does not open with a comment that says what it is for"
  done)
}

# Nothing unfinished, no machine of ours. The words are put together here, so that this file does not contain them.
rule_words() {
  local root=$1 words
  words="TO""DO|FIX""ME|XX""X|HA""CK"
  (cd "$root" && grep -rnIE --exclude-dir=.git --exclude=.git --exclude-dir='build*' --exclude-dir=gradients --exclude-dir=hostile "\b($words)\b|(^|[^A-Za-z0-9_.])/(wo""rk|ho""me|ro""ot)/" . | cut -c1-160)
}

# Every source is in a list of Meson: one that is not is not compiled, and a test that is not compiled passes.
rule_listed() {
  local root=$1 file area
  (cd "$root" && files_in . lib ref cuda cli tests examples | sed 's|^\./||' | grep '\.cpp$' | grep -v '^tests/install/' | while read -r file; do
    area=${file%%/*}
    grep -rqF "${file##*/}" --include=meson.build "$area" && continue
    case $file in tests/fuzz/fuzz_*.cpp) name=${file##*/fuzz_} && grep -qF "'${name%.cpp}'" tests/meson.build && continue ;; esac
    echo "$file is in no meson.build under $area"
  done)
}

# Each header compiles alone: public ones with the public folder only.
rule_self_contained() {
  local root=$1 file flags public=lib/include private="-I$1/lib/include -I$1/lib -I$1/ref -I$1/cli -I$1/tests -I$1/fixtures/golden"
  files_in "$root" lib ref cli tests | grep -E '\.(hpp|h)$' | sort -u | while read -r file; do
    flags=$private
    case $file in
      "$public"/*) flags="-I$root/$public" ;;
      lib/mpi/*) command -v mpicxx >/dev/null || continue && flags="-I$root/$public $(mpicxx --showme:compile)" ;;
    esac
    echo "$file $flags"
  done | xargs -P "$(nproc)" -I '{}' sh -c 'set -- {}; file=$1; shift
    '"$cxx"' -std=c++20 -fsyntax-only -x c++ "$@" "'"$root"'/$file" 2>&1 | grep -m 1 error: | sed "s|^|$file does not compile alone: |"'
}

source_rules() {
  local rule
  for rule in arrows public_headers third_parties calls lengths opening_comment words listed; do
    holds "$rule" "rule_$rule" "$src"
  done

  fresh_copy
  plant cli/main.cpp '#include "backend.hpp"'
  notices "arrows: the command line includes a private header" 'cli/main.cpp includes backend.hpp' rule_arrows "$planted"
  fresh_copy
  plant lib/plan.cpp '#include "ref_codec.hpp"'
  notices "arrows: the library includes the CPU backend" 'lib/plan.cpp includes ref_codec.hpp' rule_arrows "$planted"
  fresh_copy
  plant cuda/cuda_encode.cu '#include "ref_elements.hpp"'
  notices "arrows: the GPU backend includes the CPU backend" 'cuda_encode.cu includes ref_elements' rule_arrows "$planted"
  fresh_copy
  plant examples/planted.cpp '#include "../lib/backend.hpp"'
  notices "arrows: a path that climbs" 'planted.cpp includes ../lib' rule_arrows "$planted"
  fresh_copy
  plant lib/include/gift/plan.hpp '#include <Eigen/Core>'
  notices "public_headers: Eigen" 'plan.hpp includes Eigen/Core' rule_public_headers "$planted"
  notices "third_parties: Eigen" 'plan.hpp.*Eigen' rule_third_parties "$planted"
  fresh_copy
  plant lib/include/gift/session.hpp 'void over(MPI_Comm comm);'
  notices "public_headers: a type of MPI" 'session.hpp.*MPI_Comm' rule_public_headers "$planted"
  for call in 'void f() { exit(1); }' 'void f() { std::abort(); }' 'void f() { std::fprintf(stderr, "x"); }' 'auto f() { return std::getenv("X"); }' \
    'void f() { std::cout << 1; }' 'int f() { return system("x"); }' 'void f() { throw 1; }' 'void f(int x) { assert(x); }'; do
    fresh_copy
    plant ref/ref_scale.cpp "$call"
    notices "calls: $call" 'ref/ref_scale.cpp:[0-9]+:' rule_calls "$planted"
  done
  fresh_copy
  plant lib/plan.cpp "$(yes '//' | head -n 400)"
  notices "lengths: a long file" 'lib/plan.cpp has' rule_lengths "$planted"
  fresh_copy
  echo '#include <vector>' >"$planted/lib/planted.cpp"
  notices "opening_comment: a file that starts with code" 'lib/planted.cpp' rule_opening_comment "$planted"
  notices "listed: a source that is not built" 'lib/planted.cpp is in no' rule_listed "$planted"
  fresh_copy
  plant lib/plan.cpp "// TO""DO later"
  notices "words: unfinished" 'lib/plan.cpp' rule_words "$planted"
  fresh_copy
  plant README.md "see /ho""me/me/gradients"
  notices "words: a path of one machine" 'README.md' rule_words "$planted"

  holds self_contained rule_self_contained "$src"
  fresh_copy
  rm -rf "$planted/ref" "$planted/cli" "$planted/tests"
  plant lib/planted.hpp '// A header that forgot an include.
inline std::vector<int> planted;'
  notices "self_contained: a missing include" 'lib/planted.hpp does not compile alone' rule_self_contained "$planted"
}
