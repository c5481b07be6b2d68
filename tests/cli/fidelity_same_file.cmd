# A basis is never tested on what it was made from, under whatever name.
# exit: 2
cp "$FIXTURES/gradients/step000200-rank0.safetensors" a.safetensors
ln -s a.safetensors b.safetensors
"$GIFT" fidelity --calibrate a.safetensors --test ./b.safetensors
