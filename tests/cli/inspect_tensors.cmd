# What a dump holds, by a pattern and from a folder of its own.
cd "$FIXTURES/gradients" && "$GIFT" inspect "step000201-rank0.safetensor?"
