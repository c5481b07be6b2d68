# exit: 2
"$GIFT" export --basis "$FIXTURES/golden/bases_v1.safetensors" -o out.safetensors --dtype bf16
