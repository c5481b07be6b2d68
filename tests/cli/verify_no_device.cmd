# A device that is missing: exit 3, one line, valid JSON with the error, never a pass.
# exit: 3
# needs: no-cuda
"$GIFT" verify --backend cuda --json out.json
code=$?
grep -c '"error"' out.json
exit $code
