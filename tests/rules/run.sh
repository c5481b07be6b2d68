#!/usr/bin/env bash
# The rules of the architecture, as tests. Each rule is a function that prints violations; none printed means that it holds. Each also
# has a negative control: in a copy of the sources (or a small library made for it) the rule is broken, and has to notice.
#
#   tests/rules/run.sh SOURCE_DIR BUILD_DIR [CXX]
#
# Last line: N passed, N failed, N skipped.
set -u
[ $# -ge 2 ] || { echo "usage: tests/rules/run.sh SOURCE_DIR BUILD_DIR [CXX]" >&2; exit 2; }
src=$(cd "$1" && pwd) build=$(cd "$2" && pwd) cxx=${3:-g++}
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$here/sources.sh"
. "$here/binaries.sh"
. "$here/harness.sh"

passed=0 failed=0 skipped=0
pass() { echo "ok   $1" && passed=$((passed + 1)); }
fail() { echo "FAIL $1" && failed=$((failed + 1)); }

# holds NAME RULE ARGUMENTS...: the rule prints nothing.
holds() {
  local name=$1 said
  shift
  said=$("$@" 2>&1 </dev/null)
  if [ -z "$said" ]; then
    pass "$name"
  else
    fail "$name"
    echo "$said" | head -n 20 | sed 's/^/     /'
  fi
}

# notices NAME PATTERN RULE ARGUMENTS...: the rule prints a violation that matches.
notices() {
  local name=$1 pattern=$2 said
  shift 2
  said=$("$@" 2>&1 </dev/null)
  if echo "$said" | grep -qE -- "$pattern"; then
    pass "$name"
  else
    fail "$name: planted, not noticed; the rule said: ${said:-nothing}"
  fi
}

# A fresh copy of the sources to break.
planted=$work/planted
fresh_copy() {
  rm -rf "$planted"
  mkdir -p "$planted"
  (cd "$src" && tar cf - --exclude=./build* --exclude=./.git --exclude=./fixtures .) | tar xf - -C "$planted"
}
# plant FILE TEXT: appends a line to a copied file.
plant() {
  mkdir -p "$(dirname "$planted/$1")"
  printf '%s\n' "$2" >>"$planted/$1"
}

harness_rules
source_rules
binary_rules
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
