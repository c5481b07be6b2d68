# A basis: hash verified, layers listed; the same as JSON.
folder=$PWD
cd "$FIXTURES/golden" && "$GIFT" inspect bases_v1.safetensors --json "$folder/report.json"
grep -c "\"kind\": *\"basis\"" "$folder/report.json"
