# The packages that building and testing libgift needs on Debian 12 and Ubuntu 24.04, in one place, and their installation.
# Meant to be sourced. Nothing here asks a question or needs a terminal; what is there already is left alone.
#
#   gift_need build            what the library and the gift command are built from
#   gift_need build test       and what the tests add
#   gift_need build test ci    and what the checks of the continuous integration add
#
# GIFT_NO_INSTALL=1 skips all of it, for machines whose packages have other names or came from elsewhere.

gift_packages() {
  case $1 in
    build)
      echo g++ meson ninja-build pkg-config
      echo libeigen3-dev libopenblas-dev liblapacke-dev
      echo libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev
      echo libopenmpi-dev openmpi-bin
      ;;
    test) echo catch2 mandoc binutils ;;
    ci) echo clang libclang-rt-dev clang-format ;;
    *) echo "tests/deps.sh: there is no group of packages called '$1'" >&2 && return 2 ;;
  esac
}

# What of its arguments dpkg does not know as installed.
gift_missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Runs a command as root, by sudo where this is not root; without a terminal sudo must not wait for a password.
gift_as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif [ -t 0 ] && [ -t 2 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# One apt-get call without questions: tzdata and needrestart, left to themselves, would each ask one.
gift_apt_get() {
  gift_as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true NEEDRESTART_MODE=l LC_ALL=C \
    timeout 1200 apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

gift_need() {
  local group packages="" missing log attempt
  [ "${GIFT_NO_INSTALL:-0}" = 1 ] && return 0
  for group in "$@"; do packages="$packages $(gift_packages "$group")" || return 2; done
  packages=$(echo $packages)
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "This machine has no apt-get. Install what these Debian packages contain, then run again with GIFT_NO_INSTALL=1: $packages" >&2
    return 2
  fi
  # shellcheck disable=SC2086
  missing=$(echo $(gift_missing_packages $packages))
  [ -z "$missing" ] && return 0
  if [ "$(id -u)" -ne 0 ] && ! { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; then
    echo "Packages are missing and this user may not install them. As root: apt-get install -y $missing" >&2
    return 2
  fi
  echo "Installing: $missing"
  log=$(mktemp) || return 2
  for attempt in 1 2 3; do
    gift_apt_get update >"$log" 2>&1 || tail -n 3 "$log" >&2
    # shellcheck disable=SC2086
    if gift_apt_get install --no-install-recommends $missing >"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
    echo "apt-get install failed (attempt $attempt of 3):" >&2
    tail -n 5 "$log" >&2
    [ "$attempt" = 3 ] || sleep $((5 * attempt))
  done
  rm -f "$log"
  echo "Install these packages by hand, then run again: $missing" >&2
  return 2
}
