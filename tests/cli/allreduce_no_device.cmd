# exit: 3
# needs: no-cuda
"$GIFT" allreduce-test --backend cuda -b 4K -e 4K
