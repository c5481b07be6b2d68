# exit: 2
"$GIFT" verify --explain 1 --format fp9
