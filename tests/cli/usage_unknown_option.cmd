# exit: 2
"$GIFT" --frobnicate
