# Found out before the work, not after it.
# exit: 1
"$GIFT" fidelity --test "$FIXTURES/gradients/step000201-rank0.safetensors" --json no-such-folder/report.json
