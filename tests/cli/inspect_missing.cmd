# exit: 1
# Every message goes to stderr and into the report.
"$GIFT" inspect nothing-here.safetensors --json report.json
code=$?
cat report.json
exit $code
