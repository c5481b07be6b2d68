#!/usr/bin/env bash
# The manual pages and --help name the same options: for gift itself and every command it lists there is a page man/gift[-COMMAND].1
# whose `.It Fl` entries are exactly the options of --help, meson installs it, and mandoc has nothing to say against it.
#
#   tests/rules/man_options.sh PATH/TO/gift
#
# The last line is: N passed, N failed, N skipped.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -eq 1 ] || { echo "usage: tests/rules/man_options.sh PATH/TO/gift" >&2; exit 2; }
gift=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { echo "FAIL $*"; failed=$((failed + 1)); }

# "  -h,--help   text" gives -h and --help, each on a line.
help_options() { grep -E '^ +-' | sed -E 's/^ +([^ ]+).*/\1/; s/\{[^}]*\}//g' | tr ',' '\n' | sort -u; }

# ".It Fl h , Fl -help" gives -h and --help.
page_options() { sed -n '/^\.It Fl /p' "$1" | grep -oE 'Fl [^ ]+' | sed 's/Fl /-/' | sort -u; }

# Only the entries of gift(1) up to "Options of every command" are its own.
own_part() { sed '/^Options of every command/,$d' "$1"; }

compare() { # WHAT PAGE HELP_OPTIONS PAGE_OPTIONS
  local only_help only_page
  only_help=$(comm -23 <(echo "$3") <(echo "$4") | tr '\n' ' ')
  only_page=$(comm -13 <(echo "$3") <(echo "$4") | tr '\n' ' ')
  if [ -z "$3" ]; then
    fail "$1 --help: no options found"
  elif [ -n "$only_help" ]; then
    fail "$2 does not tell of $only_help"
  elif [ -n "$only_page" ]; then
    fail "$2 tells of what $1 --help does not: $only_page"
  else
    pass
  fi
}

mapfile -t commands < <("$gift" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ ${#commands[@]} -gt 0 ] || fail "gift --help lists no commands"

page=$root/man/gift.1
compare gift man/gift.1 "$("$gift" --help | help_options)" "$(own_part "$page" | page_options /dev/stdin)"
for command in "${commands[@]}"; do
  page=$root/man/gift-$command.1
  if [ ! -e "$page" ]; then
    fail "man/gift-$command.1 is missing"
    continue
  fi
  compare "gift $command" "man/gift-$command.1" "$("$gift" "$command" --help | help_options)" "$(page_options "$page")"
  grep -q "'gift-$command.1'" "$root/man/meson.build" && pass || fail "man/meson.build does not install gift-$command.1"
  grep -q "gift-$command 1" "$root/man/gift.1" && pass || fail "man/gift.1 does not refer to gift-$command(1)"
done
for page in "$root"/man/gift-*.1; do # no page without its command
  name=$(basename "$page" .1)
  printf '%s\n' "${commands[@]}" | grep -qx "${name#gift-}" && pass || fail "man/$name.1: there is no such command"
done

# Negative controls: an option on one side only has to be noticed, in either direction. (In subshells: their counts are dropped.)
page=$work/control.1
printf '.It Fl h , Fl -help\n.It Fl -gone Ar N\n' >"$page"
for shown in '-h,--help  x' '-h,--help  x\n  --gone N  x\n  --new  x'; do
  said=$(compare control control.1 "$(printf "  $shown\n" | help_options)" "$(page_options "$page")")
  case $said in
    FAIL*--gone* | FAIL*--new*) pass ;;
    *) fail "a difference between page and --help was not noticed: $shown" ;;
  esac
done

if command -v mandoc >/dev/null; then
  # Pages that refer to each other are not installed yet, so mandoc cannot find them.
  said=$(mandoc -Tlint "$root"/man/*.[135] 2>&1 | grep -v -e 'referenced manual not found' -e 'mandoc.db')
  if [ -z "$said" ]; then pass; else
    echo "$said"
    fail "mandoc -Tlint has something to say"
  fi
else
  echo "skip mandoc -Tlint: mandoc is not installed"
  skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
