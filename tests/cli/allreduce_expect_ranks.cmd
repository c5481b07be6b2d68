# exit: 1
# needs: mpi
# timeout: 20
$MPIRUN -np 2 "$GIFT" allreduce-test -b 4K -e 4K --expect-ranks 3 2>errors
code=$?
grep '^gift' errors >&2
exit $code
