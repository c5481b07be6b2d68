# needs: no-cuda
# exit: 3
"$GIFT" calibrate "$FIXTURES/gradients/step000200-rank0.safetensors" --backend cuda
