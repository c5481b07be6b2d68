# BLAS kernels have been wrong on single processor types: two of OpenBLAS's sets of kernels, and any number of threads, must agree.
# (OpenBLAS ignores a core type that the processor cannot run, and builds for one core know no other.)
# timeout: 300
run() { "$GIFT" calibrate "$FIXTURES/gradients/step000200-rank*.safetensors" --layers '*.qkv.weight' --rank 32 --quiet -o "$1" --json "$1.json"; }
OPENBLAS_CORETYPE=Haswell run haswell || exit 1
OPENBLAS_CORETYPE=Prescott run prescott || exit 1
OPENBLAS_NUM_THREADS=1 run one || exit 1
OPENBLAS_NUM_THREADS=3 run three || exit 1
cmp one/basis.safetensors three/basis.safetensors && echo "threads: the same bytes"
figures() { grep -E '"(energy_kept_r|predicted|measured|rel_l2)' "$1.json" | sed -E 's/(0\.0*[1-9][0-9]{4})[0-9]*/\1/'; }
figures haswell > a; figures prescott > b
[ -s a ] && cmp a b && echo "cores: the same figures to five digits"
