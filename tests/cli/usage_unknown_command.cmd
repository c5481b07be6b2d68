# A report is written even when the command line does not parse.
"$GIFT" frobnicate --json report.json
echo "exit $?"
cat report.json
