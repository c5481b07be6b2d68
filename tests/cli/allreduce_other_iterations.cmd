# exit: 1
# needs: mpi
# timeout: 20
# Ranks that would make another number of calls are told so before any of them waits for the others.
cat >worker.sh <<'END'
iterations=5
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && iterations=3
exec "$GIFT" allreduce-test --count 8 -n $iterations
END
$MPIRUN -np 3 bash worker.sh >/dev/null 2>errors
code=$?
grep '^gift' errors >&2
exit $code
