# exit: 1
# needs: mpi
# timeout: 20
# Ranks with different formats are told which rank, which tensor and which values.
cat >worker.sh <<'END'
format=e4m3
[ "$OMPI_COMM_WORLD_RANK" = 2 ] && format=e5m2
exec "$GIFT" allreduce-test --count 1000 --format $format
END
$MPIRUN -np 3 bash worker.sh >/dev/null 2>errors
code=$?
grep '^gift' errors >&2
exit $code
