# The test command itself: counting, and installing packages without a question. Sourced by tests/rules/run.sh.

# A log as `meson test` writes it, of one suite: a result and what was printed.
meson_log() {
  printf '%s\n' "==================================== 1/1 =====================================" "test:         gift:scripts / some suite" "duration:     1s" \
    "result:       $1" "command:      x" "----------------------------------- stdout -----------------------------------"
  printf '%s\n' "${@:2}"
}
counted() { meson_log "$@" | awk -f "$src/tests/count.awk"; }

# is NAME EXPECTED GOT
is() { if [ "$2" = "$3" ]; then pass "$1"; else fail "$1: expected '$2', got '$3'"; fi; }

counting_rules() {
  is "counting: a suite's last counts" "some_suite 3 0 1 ok" "$(counted 'exit status 0' '7 passed, 7 failed' '3 passed, 0 failed, 1 skipped')"
  is "counting: failures" "some_suite 3 2 0 failed" "$(counted 'exit status 1' '3 passed, 2 failed')"
  is "counting: no counts is a failure" "some_suite 0 1 0 printed no counts (exit status 0)" "$(counted 'exit status 0' 'all fine')"
  is "counting: a crash after the counts is a failure" "some_suite 3 1 0 killed by signal 11 SIGSEGV" \
    "$(counted 'killed by signal 11 SIGSEGV' '3 passed, 0 failed')"
  is "counting: a suite that ran nothing has failed" "some_suite 0 1 0 ran no test" "$(counted 'exit status 0' '0 passed, 0 failed, 0 skipped')"
  is "counting: counts on stderr are somebody else's" "some_suite 0 1 0 printed no counts (exit status 0)" \
    "$(counted 'exit status 0' '----------------------------------- stderr -----------------------------------' '3 passed, 0 failed')"
  is "counting: the last line adds up" "5 passed, 0 failed, 1 skipped" "$(last_line_of 'a 2 0 1 ok' 'b 3 0 0 ok')"
  is "counting: failing means a bad exit code" "2 passed, 1 failed, 0 skipped, exit 1" "$(last_line_of 'a 2 1 0 failed')"
  is "counting: nothing passed means a bad exit code" "0 passed, 0 failed, 2 skipped, exit 1" "$(last_line_of 'a 0 0 2 ok')"
}

last_line_of() {
  (
    . "$src/tests/suites.sh"
    printf '%s\n' "$@" >"$results/counts"
    line=$(last_line) && echo "$line" || echo "$line, exit 1"
  )
}

# Stand-ins for the programs that tests/deps.sh calls; apt-get writes down how it was called.
fake_machine() {
  fake=$work/fake
  rm -rf "$fake" && mkdir -p "$fake"
  local program
  for program in bash sh env mktemp rm tail cat timeout; do ln -s "$(command -v $program)" "$fake/$program"; done
  printf '#!/bin/sh\necho %s\n' "${1:-0}" >"$fake/id"
  printf '#!/bin/sh\nfor last; do :; done\n[ "$last" = mandoc ] || echo installed\n' >"$fake/dpkg-query"
  printf '#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >>"%s"\nif read -r line; then echo asked >>"%s"; fi\nexit %s\n' "$fake/calls" "$fake/calls" "${2:-0}" >"$fake/apt-get"
  printf '#!/bin/sh\nexit 0\n' >"$fake/sleep"
  chmod +x "$fake"/id "$fake"/dpkg-query "$fake"/apt-get "$fake"/sleep
}
need() { PATH=$fake GIFT_NO_INSTALL=0 "$fake/bash" -c ". '$src/tests/deps.sh'; gift_need build test; echo \"exit \$?\"" 2>&1 <<<"an answer"; }

package_rules() {
  fake_machine 0 0
  is "packages: only what is missing" "Installing: mandoc exit 0" "$(echo $(need))"
  is "packages: installed once, after an update, without questions" "update install mandoc" \
    "$(sed -n 's/^noninteractive .*Use-Pty=0 //p' "$fake/calls" | sed 's/--no-install-recommends //' | tr '\n' ' ' | sed 's/ $//')"
  is "packages: nothing reads our standard input" "0" "$(grep -c asked "$fake/calls")"
  fake_machine 0 1
  is "packages: three attempts, then what to do by hand" "3 Install these packages by hand, then run again: mandoc exit 2" \
    "$(need >"$work/said"; echo "$(grep -c install "$fake/calls")" $(grep -A 1 'by hand' "$work/said"))"
  fake_machine 1000 0
  is "packages: a user who may not install hears what is missing" \
    "Packages are missing and this user may not install them. As root: apt-get install -y mandoc exit 2" "$(echo $(need))"
  rm "$fake/apt-get"
  notices "packages: a machine without apt-get" 'has no apt-get.*libeigen3-dev.*catch2' need
}

harness_rules() {
  counting_rules
  package_rules
}
