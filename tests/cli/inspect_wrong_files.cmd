# exit: 1
# Files that are wrong are named, and the others are shown all the same.
cd "$FIXTURES/hostile" && "$GIFT" inspect duplicate_name.safetensors ok_f4.safetensors lfs_pointer.safetensors
