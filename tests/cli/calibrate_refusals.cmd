# What cannot be calibrated on, each in one line and with its exit code.
try() { "$GIFT" calibrate "$@"; echo "exit $?"; }
F=$FIXTURES/gradients
try
try "$F"/step000200-rank0.safetensors --rank 0
try "$F"/step000200-rank0.safetensors --rank 8x
try "$F"/step000200-rank0.safetensors --budget 2
try "$F"/step000200-rank0.safetensors --geometry defalte
try "$F"/step000200-rank0.safetensors --format e4m4
try "$F"/step000200-rank0.safetensors --format fp32
try "$F"/step000200-rank0.safetensors --side top
try nothing-here/*.safetensors
mkdir empty
try empty
cp "$F"/activations-step000200-rank0.safetensors a.safetensors
try a.safetensors
cp "$F"/step000200-rank0.safetensors g.safetensors
try g.safetensors --source activations
try g.safetensors --layers 'nope*'
try g.safetensors --layers '*.proj.weight' --rank 8 -o a.safetensors
try "$FIXTURES"/hostile/cut_in_half.safetensors 2> err; sed 's|.*hostile/||' err >&2
