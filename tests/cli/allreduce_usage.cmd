# exit: 2
# What cannot be used is refused with the reason, before any rank starts anything.
try() { "$GIFT" allreduce-test "$@" || [ $? -eq 2 ] || echo "not a usage error: $*"; }
try -b 2X
try -b 1e6
try -b -5
try -b ''
try -b 0 -e 1K
try -b 4M -e 1M
try -c 2
try -f 1
try --format e4m4
try --geometry cube
try --op max
try --count 8 --grads x
try --basis b.safetensors
try --recipe r.toml --format e4m3
"$GIFT" allreduce-test --no-such-option
