# needs: mpi
# timeout: 300
# Every format, odd sizes, 1 to 8 ranks: not one wrong element.
for ranks in 1 2 3 4 7 8; do
  $MPIRUN -np $ranks "$GIFT" allreduce-test --count 1,2,3,15,16,17,31,33,64,1023,2305,8192 -n 1 -w 0 --expect-ranks $ranks --quiet --json rows.json \
    --format fp32,bf16,e4m3,e4m3:tensor,e4m3:row:sr,e5m2,e5m2:block:16,mxfp8,mxfp8:floor,nvfp4,nvfp4:tensor,mxfp4 || exit 1
  echo "$ranks ranks: $(grep -c '"wrong": 0,' rows.json) rows without a wrong element of $(grep -c '"bytes"' rows.json), $(grep -c '"replicas_equal": true' rows.json) with equal replicas, world_size $(sed -n 's/.*"world_size": \([0-9]*\),/\1/p' rows.json)"
done
