#!/usr/bin/env bash
# Are the published figures of the full gradient dumps reproduced? Calibrates on step 200, tests on steps 201, 205 and 250, and holds
# every row of fixtures/golden/readme_figures.tsv against what `gift fidelity --json` says: within 3 %, or half a unit of the last
# printed digit where that is more. Then: with the basis of one step ago NVFP4
# deflated on both sides must be more faithful than direct FP8.
#
#   tests/acceptance/fidelity_readme.sh PATH/TO/gift
#
# Skips, and says so, where the dumps are absent. The last line is: N passed, N failed, N skipped.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -eq 1 ] || { echo "usage: tests/acceptance/fidelity_readme.sh PATH/TO/gift" >&2; exit 2; }
gift=$(realpath "$1")
table=$root/fixtures/golden/readme_figures.tsv
dumps=$root/../shared/gradients
if [ ! -e "$dumps/step000250-rank0.safetensors" ]; then
  echo "skip fidelity_readme: the full gradient dumps are not here (../shared/gradients)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
export LC_ALL=C OPENBLAS_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# `overall` rows of a report as: coordinates, basis, side, rank, format, rel_l2 (tabs between). One key stands on each line.
overall_rows() {
  awk '
    function value(line) { sub(/^ *"[a-z0-9_]+": /, "", line); sub(/,$/, "", line); gsub(/^"|"$/, "", line); return line }
    /^ *\{/ { split("", row) }
    match($0, /^ *"[a-z0-9_]+": /) { key = $1; gsub(/[":]/, "", key); row[key] = value($0) }
    /^ *\}/ && row["layer"] == "overall" {
      printf "%s\t%s\t%s\t%s\t%s\t%s\n", row["coordinates"], row["basis"], row["side"], row["rank"], row["format"], row["rel_l2"]
      split("", row)
    }' "$1"
}

passed=0 failed=0
for step in 201 205 250; do
  if ! "$gift" fidelity --quiet --layers 'layers.1.*' --json "$work/$step.json" --test "$dumps/step000$step-rank0.safetensors" \
    --calibrate "$dumps"/step000200-rank*.safetensors "$dumps"/activations-step000200-rank*.safetensors; then
    echo "FAIL step $step: gift fidelity failed"
    failed=$((failed + 1))
    continue
  fi
  overall_rows "$work/$step.json" >"$work/$step.tsv"
  counts=$(awk -F'\t' -v step="$step" '
    NR == FNR { got[$1 "|" $2 "|" $3 "|" $4 "|" $5] = $6; next }
    $1 == step {
      key = $2 "|" $3 "|" $4 "|" $5 "|" $6
      limit = 0.03 * $7; if (limit < 0.00005) limit = 0.00005
      off = got[key] - $7; if (off < 0) off = -off
      what = "step " step ": " $2 ", basis " $3 ", side " $4 ", r " $5 ", " $6
      if (!(key in got) || got[key] == "null" || !(off <= limit)) {
        ++bad; print "FAIL " what ": got " (key in got ? got[key] : "no row") ", published " $7 > "/dev/stderr"
      } else {
        ++good; if (off / $7 > worst) worst = off / $7
      }
    }
    END { printf "%d %d %.2f\n", good, bad, 100 * worst }' "$work/$step.tsv" "$table")
  read -r good bad worst <<<"$counts"
  echo "step $step: $good of $((good + bad)) published figures agree, the worst within $worst %"
  passed=$((passed + good))
  failed=$((failed + bad))

  # With a basis one step old; at 5 and 50 steps the published figures themselves have it the other way round.
  [ "$step" = 201 ] || continue
  read -r nvfp4 fp8 <<<"$(awk -F'\t' '
    $1 == "euclidean" && $5 ~ /^e4m3/ && (fp8 == "" || $6 + 0 < fp8) { fp8 = $6 + 0 }
    $1 == "deflate" && $3 == "both" && $5 ~ /^nvfp4/ { nvfp4 = $6 + 0 }
    END { print nvfp4 + 0, fp8 + 0 }' "$work/$step.tsv")"
  if awk -v a="$nvfp4" -v b="$fp8" 'BEGIN { exit !(a > 0 && a < b) }'; then
    echo "step $step: NVFP4 deflated on both sides $nvfp4, direct FP8 at best $fp8"
    passed=$((passed + 1))
  else
    echo "FAIL step $step: NVFP4 deflated on both sides $nvfp4 is not below direct FP8 $fp8"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
