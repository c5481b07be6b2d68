# exit: 1
# Nothing is written when a layer is not there.
"$GIFT" export --basis "$FIXTURES/golden/bases_v1.safetensors" -o out.safetensors --layers "both,fc3"
code=$?
[ -e out.safetensors ] && echo "written all the same"
exit $code
