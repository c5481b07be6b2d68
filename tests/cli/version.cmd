"$GIFT" --version
