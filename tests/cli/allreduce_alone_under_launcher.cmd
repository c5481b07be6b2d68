# exit: 1
# timeout: 20
# A program that a launcher started twice and that sees itself alone must not report success.
OMPI_COMM_WORLD_SIZE=2 "$GIFT" allreduce-test -b 4K -e 4K
one=$?
SLURM_NTASKS=3 "$GIFT" allreduce-test -b 4K -e 4K
[ $? -ne 0 ] && [ $one -ne 0 ] && exit 1
exit 0
