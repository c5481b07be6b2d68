# Checks of an installation, as a user of the library meets it. Sourced by tests/ci/checks.sh.

# installed_checks BUILD PREFIX
installed_checks() {
  local folder=$1 prefix=$2 stage=$results/stage
  check install "meson install" 300 meson install -C "$folder" --no-rebuild
  check install "gift runs with an empty environment" 60 env -i "$prefix/bin/gift" --version
  check install "gift finds its MPI transport with an empty environment" 60 sh -c "env -i '$prefix/bin/gift' --version | grep -E '^MPI: (Open MPI|not built\$)'"
  check install "every library that gift and libgift need is found" 60 sh -c \
    "for f in '$prefix/bin/gift' $prefix/lib/*/libgift.so $prefix/lib/libgift.so; do [ ! -e \$f ] || env -i /usr/bin/ldd \$f; done >'$results/ldd'; grep -q libgift '$results/ldd' && ! grep 'not found' '$results/ldd'"
  check install "gift verify --backend cpu, installed" 600 env -i "$prefix/bin/gift" verify --backend cpu
  check install "man pages are installed" 60 sh -c "ls '$prefix'/share/man/man1/gift.1"
  check install "a program by pkg-config" 120 consumer "$prefix" tests/install/consumer.cpp gift
  if command -v mpicxx >/dev/null && [ -e "$prefix/include/gift/mpi.hpp" ]; then
    check install "a program over MPI by pkg-config" 120 consumer "$prefix" tests/install/mpi_consumer.cpp gift-mpi
  else
    check_skipped install "a program over MPI by pkg-config" "no MPI here"
  fi
  readme_example >"$results/readme.cpp"
  check install "the example of README.md" 120 consumer "$prefix" "$results/readme.cpp" gift
  DESTDIR=$stage check install "DESTDIR" 300 meson install -C "$folder" --no-rebuild
  rm -rf "$prefix"
  check install "gift runs from a staged folder, the prefix being empty" 60 env -i "$stage$prefix/bin/gift" --version
  rm -rf "$stage"
}

# consumer PREFIX SOURCE PACKAGE: compiles with nothing but what pkg-config says, runs with an empty environment.
consumer() {
  local prefix=$1 source=$2 package=$3 config compiler=${CXX:-g++} warnings="-Wall -Wextra -Werror"
  config=$(dirname "$(find "$prefix" -name gift.pc)")
  [ "$package" = gift-mpi ] && compiler=mpicxx warnings="" # Open MPI's own headers are not free of warnings
  # shellcheck disable=SC2046,SC2086
  "$compiler" -std=c++20 $warnings "$source" -o "$results/consumer" \
    $(PKG_CONFIG_PATH=$config pkg-config --cflags --libs "$package") "-Wl,-rpath,$(dirname "$config")" || return 1
  env -i HOME="$results" PATH="$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$results/consumer"
}
export -f consumer

# The first C++ example of README.md.
readme_example() { awk '/^```cpp$/ { on = 1; next } /^```$/ && on { exit } on' README.md; }
