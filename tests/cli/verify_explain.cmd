# Which rule, which neighbours, which code.
"$GIFT" verify --explain 4.25
"$GIFT" verify --explain -0.3 --format nvfp4
"$GIFT" verify --explain 1000 --format e4m3
