#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 machine to a compressed all-reduce of real gradients: installs, builds, calibrates, compares,
# and runs four ranks. Safe to run again; it writes to its build folder only.
#
#   bash examples/quickstart.sh [--build DIR]
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/deps.sh
build=build-quickstart
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?quickstart.sh: --build needs a folder} && shift ;;
    -h | --help) sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "quickstart.sh: there is no option $1" >&2 && exit 2 ;;
  esac
  shift
done
gift=$build/cli/gift out=$build/quickstart data=fixtures/gradients
step() { printf '\n[%s, after %d min %02d s] %s\n\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)) "$2"; }
explain() { printf '\n%s\n\n' "$*" | fold -s -w 100 | sed 's, *$,,'; }
give_up() { echo "quickstart.sh: $*" >&2 && exit 1; }
show() { echo "\$ $*" && "$@"; }

step 1/5 "Packages"
gift_need build || exit 1
echo "All packages are here."

step 2/5 "Building in $build/ (a few minutes on two cores; seconds if it was built before)"
if [ ! -e "$build/build.ninja" ]; then
  meson setup "$build" -Dtests=false -Dbuildtype=release >"$build.log" 2>&1 </dev/null || { tail -n 20 "$build.log" && give_up "configuring failed"; }
  mv "$build.log" "$build/quickstart-configure.log"
fi
targets=$(ninja -C "$build" -t targets all | grep -oE '^(cli/gift|lib/mpi/libgift_mpi\.so\.[0-9.]+):' | tr -d ':')
# In a pipe, every tenth of the way is enough.
# shellcheck disable=SC2086
ninja -C "$build" $targets 2>&1 </dev/null | tee "$build/quickstart-build.log" |
  awk -F'[][/]' '/^\[[0-9]+\/[0-9]+\]/ { if (int(10 * $2 / $3) > tenth) { tenth = int(10 * $2 / $3); print "  " $2 " of " $3 " compiled"; fflush() } }'
[ "${PIPESTATUS[0]}" -eq 0 ] || { tail -n 20 "$build/quickstart-build.log" && give_up "compiling failed"; }
"$gift" --version | head -n 1

mkdir -p "$out" || exit 1
# One BLAS thread a process unless the user said otherwise: four ranks share these cores.
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}

step 3/5 "Calibrating: which directions do the gradients of these layers prefer?"
explain "The data: weight gradients of one block of a small Llama (width 256) at training step 200, one file for each of four data-parallel" \
  "ranks. For each layer gift finds the 32 strongest directions of its rows and of its columns. Later these coordinates travel in BF16 and" \
  "only the small rest is quantised; this is called deflation."
show "$gift" calibrate "$data"/step000200-rank[0-3].safetensors --rank 32 --side both --format nvfp4 -o "$out" || give_up "gift calibrate failed"

step 4/5 "Comparing formats on gradients of the next step, which the bases have not seen"
show "$gift" fidelity --calibrate "$data"/step000200-rank[0-3].safetensors --test "$data"/step000201-rank0*.safetensors \
  --formats e4m3:tensor,nvfp4 --methods euclidean,hadamard,deflate:right,deflate:both --svg "$out/fidelity.svg" \
  --json "$out/fidelity.json" || give_up "gift fidelity failed"
explain "How to read it: RelL2 is |decoded - gradient| / |gradient| of one encode and decode; smaller is better. 'euclidean' is the" \
  "plain format, 'hadamard' mixes columns without knowing the data, 'deflate' uses what was calibrated. Read the bits too: 32" \
  "directions a side cost 16 * 32 / width bits an element, which is much at this width of 256 and an eighth of a bit at 4096." \
  "$out/fidelity.svg plots error against bits, everything counted."

step 5/5 "Four ranks average the gradients of step 201 over MPI"
command -v mpirun >/dev/null || give_up "mpirun is not installed, so four ranks cannot run: apt-get install openmpi-bin libopenmpi-dev, then run this again"
"$gift" --version | grep -q '^MPI: not built' &&
  give_up "gift was built in $build/ without MPI: install libopenmpi-dev, remove that folder, run this again"
# More ranks than cores; between processes of a container memory may be copied through shared memory only.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
ranks=(timeout -k 5 300 mpirun --oversubscribe -np 4 "$gift" allreduce-test --expect-ranks 4 --grads "$data/step000201-rank[0-3].safetensors")
echo "Without bases, three formats:"
show "${ranks[@]}" --format fp32,e4m3,nvfp4 || give_up "gift allreduce-test failed"
printf '\nWith the recipe and the bases from step 3:\n'
show "${ranks[@]}" --recipe "$out/recipe.toml" --basis "$out/basis.safetensors" || give_up "gift allreduce-test failed with the recipe"
explain "'ratio' is the bytes sent over those of FP32, everything counted. '#wrong' is 0 when every element of every rank is, bit for" \
  "bit, what one process computes from the same gradients; 'replicas equal' means that all ranks ended with the same bytes. With" \
  "the bases NVFP4 is about as close to the exact mean as FP8 without. Time means little here: four ranks share one machine."

cat <<END
Done in $((SECONDS / 60)) min $((SECONDS % 60)) s. Where to go next:
  your own gradients   dump them to safetensors, one file a rank and step, and put their names in the three commands above
  every option         $gift --help; man man/gift.1; each command has its own page
  use it from C++      examples/allreduce.cpp: a session over threads, and the same over MPI with <gift/mpi.hpp>
  see that it is right bash tests/run.sh
END
