"""Whether a function is a kernel: symmetric, finite, the same in every batch, positive semi-definite."""
