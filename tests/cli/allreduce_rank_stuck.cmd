# exit: 1
# needs: mpi
# timeout: 40
# One rank stops without dying: the others name it when their patience ends, and all end.
cat >worker.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && { "$GIFT" allreduce-test -b 64K -e 64K -n 1000000 --timeout 3 & pid=$!; sleep 1; kill -STOP $pid; wait $pid; exit $?; }
exec "$GIFT" allreduce-test -b 64K -e 64K -n 1000000 --timeout 3
END
$MPIRUN -np 3 bash worker.sh >/dev/null 2>errors
[ $? -ne 0 ] || exit 90
grep '^gift' errors | sort -u | grep -o 'rank 1 did not arrive' | sort -u >&2
exit 1
