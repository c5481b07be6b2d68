# exit: 2
"$GIFT"
