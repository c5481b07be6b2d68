# exit: 1
# needs: mpi
# timeout: 40
# kill -9 on one rank in the middle of a long run: mpirun and all other ranks end soon, and not with success.
cat >worker.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && { "$GIFT" allreduce-test -b 1M -e 1M -n 1000000 & pid=$!; sleep 2; kill -9 $pid; wait $pid; exit $?; }
exec "$GIFT" allreduce-test -b 1M -e 1M -n 1000000
END
start=$(date +%s)
$MPIRUN -np 3 bash worker.sh >/dev/null 2>&1
[ $? -ne 0 ] || exit 90
[ $(($(date +%s) - start)) -lt 30 ] || exit 91
exit 1
