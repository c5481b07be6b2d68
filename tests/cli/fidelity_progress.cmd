# A bar and colours on a terminal, neither in a pipe.
# needs: script
run="'$GIFT' fidelity --methods euclidean --formats e4m3 --test '$FIXTURES/gradients/step000201-rank0.safetensors'"
TERM=xterm script -qec "$run" /dev/null >terminal.txt 2>&1
tr '\r' '\n' <terminal.txt | grep -q '^.*\[=*>* *\] [0-9]*/[0-9]*' && echo "a bar on the terminal"
grep -q $'\033\[1m' terminal.txt && echo "colours on the terminal"
bash -c "$run" >pipe.txt 2>&1
grep -q $'\033' pipe.txt || echo "no escape codes in a pipe"
grep -q '\[=*>' pipe.txt || echo "no bar in a pipe"
