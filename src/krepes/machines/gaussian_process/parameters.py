"""What the parameters of Gaussian processes mean, said once for both."""

from __future__ import annotations

PARAMETERS = """Parameters
    ----------
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        The covariance of the function, up to its amplitude. "auto" compares a Gaussian, two Matérn kernels and a
        Laplacian by their evidence on a sample of the rows, as a list of your own is compared.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance over which the function changes. "auto" maximises the evidence of a sample.
    input_metric : None or "diagonal", default="diagonal"
        Whether each column may have a lengthscale of its own, where the evidence is higher by more than the number of
        lengthscales explains. Of lengthscale="auto" only.
    amplitude : float or "auto", default="auto"
        The variance of the function before any data, over k(x, x){unit}."""

OTHERS = """landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int, "auto" or None, default="auto"
        Number m of landmarks; more are better, and slower. "auto" is 2000, None is all rows. With no more rows than
        landmarks the solution is exact.
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
        As in KernelEmbedding. With "auto" the columns of an array are used as given or standardised, whichever has the
        higher evidence.
    engine, device, random_state, verbose : as in KernelEmbedding
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of kernel values and features; "auto" is float64 up to 20 000 rows."""

ATTRIBUTES = """amplitude_ : float
    log_marginal_likelihood_ : float
        {evidence}
    choice_ : KernelChoice or None
        The kernels that were tried; print it. It is not saved.
    metric_ : str or None
        What columns are to the kernel: "as given", "standardised", or "diagonal" with lengthscales of their own.
    dual_coef_ : ndarray of shape (m, c)
        Coefficients A of the posterior mean A^T k_x + b.
    intercept_ : ndarray of shape (c,)
    space_ : FeatureSpace
        Encoder, kernel with its metric, and landmarks.
    n_samples_seen_ : int"""
