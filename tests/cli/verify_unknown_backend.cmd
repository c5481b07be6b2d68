# A backend that does not exist is not a pass.
# exit: 3
"$GIFT" verify --backend gpu
