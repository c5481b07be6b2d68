# The report is valid and holds the error, whatever went wrong.
"$GIFT" fidelity --test nothing.safetensors --json report.json
echo "exit $?"
cat report.json
