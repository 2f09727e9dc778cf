"""A representation beside what could be used instead: kernel PCA, other methods, fewer labels; and the verdict."""
