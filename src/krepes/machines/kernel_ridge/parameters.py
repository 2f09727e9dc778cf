"""What the parameters of ridge machines mean, said once for both."""

from __future__ import annotations

PARAMETERS = """Parameters
    ----------
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        How rows are compared. "auto" compares an L1-Laplacian (up to 128 columns), a Gaussian and a Laplacian kernel
        on a sample of the rows, as a list of your own is compared: the first is kept unless another one is better by
        more than chance explains.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance at which the kernel tells rows apart. "auto" tries multiples of the median on a sample.
    input_metric : None, "diagonal", "full" or "auto", default="diagonal"
        Learn from the targets how much each column counts ("diagonal"), or also how columns are turned ("full").
        "auto" tries both. A learned metric is used only where it predicts rows that were left out better than none.
    penalty : float or "auto", default="auto"
        How smooth the function is: the variance of the noise in y, in units of its variance. "auto" takes the one with
        the lowest error on rows that were left out.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalised.
    solver : "auto", "direct" or "conjugate_gradients", default="auto"
        "direct" decomposes sums that one pass over the rows gives. "conjugate_gradients" is for very many landmarks: it
        reads the rows a few dozen times and keeps no sums, so that there is no partial_fit, merge and forget; "auto"
        takes it above 6000 landmarks. The penalty "auto" is then chosen on the kept rows with 2000 of the landmarks.
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int, "auto" or None, default="auto"
        Number m of landmarks; more are better, and slower. "auto" is 2000, None is all rows. With no more rows than
        landmarks the solution is exact.
    n_folds : int, default=5
        Folds for the penalty and for conformal intervals. They take n_folds * 8 m^2 bytes.
    n_kept : int, default=20000
        How many rows, at most, are kept with the model for what needs single predictions: leave-one-out errors,
        calibration, conformal intervals. They are saved with it.
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
        As in KernelEmbedding. With "auto" the columns of an array are used as given or standardised, whichever
        predicts better.
    engine, device, random_state, verbose : as in KernelEmbedding
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of kernel values and features; "auto" is float64 up to 20 000 rows."""

ATTRIBUTES = """penalty_ : float
    penalty_errors_ : PenaltyErrors
        The error of every penalty that was tried.
    choice_ : KernelChoice or None
        The kernels, lengthscales and metrics that were tried; print it. It is not saved.
    metric_ : str or None
        The metric of the kernel: "as given", "standardised", or the kind and the step of a learned one.
    held_out_score_ : HeldOutScore
        Accuracy or R^2 on rows that were left out; print it.
    dual_coef_ : ndarray of shape (m, c)
        Coefficients A of f(x) = A^T k_x + b.
    intercept_ : ndarray of shape (c,)
    space_ : FeatureSpace
        Encoder, kernel with its metric, and landmarks: for `KernelEmbedding.fit(X, space=machine.space_)`.
    n_samples_seen_ : int
    n_iter_ : int or None
        Iterations of conjugate gradients."""


def with_parameters(docstring: str) -> str:
    """A docstring with the parameters and attributes that both machines have."""
    return docstring.format(parameters=PARAMETERS, attributes=ATTRIBUTES)
