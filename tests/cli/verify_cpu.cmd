# The default backend against tables and reference: passes, says what it compared, and the JSON agrees.
# timeout: 300
"$GIFT" verify --backend cpu --json out.json >table.txt || exit 1
head -1 table.txt | cut -c1-12
tail -1 table.txt | cut -c1-51
grep -c . table.txt | awk '{ print ($1 > 100) ? "more than 100 rows" : "too few rows: " $1 }'
grep -o '"passed": *true' out.json
grep -c '"compared": *0[,}]' out.json || true
