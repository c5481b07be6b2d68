# Reads a log of `meson test` and prints one line a suite: NAME PASSED FAILED SKIPPED NOTE.
# Every suite ends its output with its counts ("N passed, N failed" or "N passed, N failed, N skipped"); one that ran nothing,
# gave no counts, or ended badly without saying which test failed, has failed once more than it said.
function finish() {
  if (name == "") return
  note = "ok"
  if (!counted) { note = "printed no counts (" result ")"; ++failed }
  else if (passed + failed + skipped == 0) { note = "ran no test"; ++failed }
  else if (failed > 0) note = "failed"
  else if (result != "exit status 0") { note = result; ++failed }
  gsub(/ /, "_", name)
  print name, passed + 0, failed + 0, skipped + 0, note
  name = ""
}
/^test: +/ && !in_output { finish(); sub(/^test: +/, ""); sub(/^[^\/]* \/ /, ""); name = $0; counted = passed = failed = skipped = 0; result = "no result"; next }
/^result: +/ && !in_output { sub(/^result: +/, ""); result = $0; next }
/^-+ std(out|err) -+$/ { in_output = 1; stream = $2; next }
/^=+ [0-9]+\/[0-9]+ =+$/ && length($0) == 78 { in_output = 0; next }
in_output && stream == "stdout" && /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
  counted = 1
  split($0, part, /[^0-9]+/)
  passed = part[1]; failed = part[2]; skipped = part[3] + 0
}
END { finish() }
