# Truncation gives a new hash, and the new file is a basis of its own.
"$GIFT" export --basis "$FIXTURES/golden/bases_v1.safetensors" --rank 2 -o small.safetensors --layers "both,wh*" || exit 1
"$GIFT" inspect small.safetensors
"$GIFT" export --basis small.safetensors --rank 2 -o again.safetensors --quiet && cmp small.safetensors again.safetensors && echo same
