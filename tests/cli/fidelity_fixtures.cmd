# The whole comparison on the fixtures: tables, report, plot. Figures that must hold are held, by inequality, at the end.
# timeout: 300
"$GIFT" fidelity --calibrate "$FIXTURES"/gradients/step000200-rank?.safetensors \
  --test "$FIXTURES/gradients/step000201-rank0.safetensors" "$FIXTURES/gradients/step000201-rank0-fc1.safetensors" \
  --methods euclidean,hadamard:block=64,deflate,deflate:both --formats e4m3:tensor,nvfp4 --json report.json --svg plot.svg
echo "exit $?"
grep -c '<polyline' plot.svg
head -n 1 plot.svg
tail -n 1 plot.svg
# RelL2 of a row of the report, by coordinates, side and format, of layer "overall".
figure() {
  awk -v want="$1" '
    function value(line) { sub(/^ *"[a-z0-9_]+": /, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
    match($0, /^ *"[a-z0-9_]+": /) { key = $1; gsub(/[":]/, "", key); row[key] = value($0) }
    /^ *\}/ { if (row["layer"] == "overall" && row["coordinates"] "," row["side"] "," row["format"] == want) print row["rel_l2"] }' report.json
}
between() { awk -v x="$(figure "$2")" -v low="$1" -v high="$3" 'BEGIN { print (x != "" && x > low && x < high ? "ok" : "got " x) }'; }
between 0.0263 euclidean,none,e4m3:tensor 0.0267
between 0.0098 deflate,right,e4m3:tensor 0.0101
between 0.0065 deflate,both,e4m3:tensor 0.0068
between 0.0230 deflate,both,nvfp4 0.0240
