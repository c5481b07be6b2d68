# exit: 1
# needs: mpi
# timeout: 20
# Rank 1 alone cannot find its basis: all end, at once, with rank 1's words.
cat >worker.sh <<'END'
basis=$FIXTURES/golden/basis-v1.safetensors
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && basis=missing.safetensors
exec "$GIFT" allreduce-test --grads "$FIXTURES/gradients/step000201-rank?.safetensors" --basis $basis --json report.$OMPI_COMM_WORLD_RANK
END
$MPIRUN -np 3 bash worker.sh 2>errors
code=$?
grep '^gift' errors >&2
ls report.*
grep -c '"error": "rank 1: missing.safetensors' report.0
exit $code
