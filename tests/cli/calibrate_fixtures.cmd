# Calibration on real gradients at a fixed rank: tables, files, and the same bytes when run again. By proj alone, to be quick.
# timeout: 300
"$GIFT" calibrate "$FIXTURES/gradients/step000200-rank*.safetensors" --layers '*.proj.weight' --rank 32 --format nvfp4 -o out --json out.json || exit 1
"$GIFT" calibrate "$FIXTURES/gradients/step000200-rank*.safetensors" --layers '*.proj.weight' --rank 32 --format nvfp4 -o again --quiet || exit 1
cmp out/basis.safetensors again/basis.safetensors && cmp out/recipe.toml again/recipe.toml && echo "the same bytes"
cat out/recipe.toml
grep -c '"layer"' out.json
