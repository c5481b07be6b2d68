# Each of these is a usage error with one line that says what is wrong.
try() { "$GIFT" fidelity --test "$FIXTURES/gradients/step000201-rank0.safetensors" "$@"; echo "exit $?"; }
try --formats e4m4
try --formats e4m3,,nvfp4
try --formats nvfp4:block:16
try --methods deflate:rank=1e3
try --methods whiten
try --ranks 8,-16
try --ranks 8x
try --layers 'layers.9.*'
try --frobnicate
"$GIFT" fidelity
echo "exit $?"
