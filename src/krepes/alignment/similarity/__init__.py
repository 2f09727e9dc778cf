"""How alike two representations are: CKA, exactly, from a stream or from sketches, and kernels combined by it."""
