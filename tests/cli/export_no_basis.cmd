# exit: 1
cd "$FIXTURES/gradients" && "$GIFT" export --basis step000200-rank0.safetensors -o /dev/null
