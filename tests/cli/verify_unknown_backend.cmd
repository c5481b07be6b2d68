# A backend that does not exist is not a pass.
# exit: 1
"$GIFT" verify --backend gpu
