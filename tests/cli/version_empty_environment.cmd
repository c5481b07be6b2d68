env -i "$GIFT" --version | head -n 1
