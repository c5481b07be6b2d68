#!/bin/sh
# Runs a test program under mpirun at several world sizes; usage: run_mpi.sh PROGRAM SIZES... A run that hangs is a failure after a minute.
# Root and more ranks than cores are allowed, and copies between processes go through shared memory (containers forbid the other way).
set -u
program=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
export OPENBLAS_NUM_THREADS=1
passed=0
failed=0
for size in "$@"; do
  if timeout -k 5 60 mpirun -np "$size" "$program"; then
    passed=$((passed + 1))
  else
    echo "FAILED: mpirun -np $size $program (exit $?)"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
