# exit: 3
# needs: mpi
# timeout: 30
# libgift.so without libgift_mpi.so beside it: one process works, several say why they cannot.
mkdir lib
cp -L "$(ldd "$GIFT" | sed -n 's/.*libgift\.so\.0 => \(.*\) (.*/\1/p')" lib/libgift.so.0
export LD_LIBRARY_PATH=$PWD/lib
"$GIFT" allreduce-test -b 4K -e 4K --quiet || exit 99
$MPIRUN -np 2 "$GIFT" allreduce-test -b 4K -e 4K 2>&1 | grep '^gift' | sort -u
PMI_SIZE=2 "$GIFT" allreduce-test -b 4K -e 4K
