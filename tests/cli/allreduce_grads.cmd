# needs: mpi
# timeout: 120
# Real gradients: each rank takes its own dump, and the result is that of one process, bit for bit.
$MPIRUN -np 4 "$GIFT" allreduce-test --grads "$FIXTURES/gradients/step000201-rank?.safetensors" --format e4m3,nvfp4 -n 1 -w 0
