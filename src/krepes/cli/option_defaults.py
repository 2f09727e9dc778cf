"""Options of the command line that are parameters of the library, with their defaults.

Generated from the classes by `python tools/option_defaults.py`; do not edit. A test compares the two.
"""

from krepes.cli.parameter import Parameter

# fmt: off
TABLE: dict[str, tuple[Parameter, ...]] = {
    "KernelEmbedding": (
        Parameter('n_components', '--n-components', 'int', 64, 'Width of the representation: how many numbers every row gets. auto chooses it from the data.', choices=('auto',), least=1),
        Parameter('kernel', '--kernel', 'str', 'auto', 'How rows are compared.', choices=('arc_cosine', 'auto', 'empirical_ntk', 'gaussian', 'infinite_width', 'laplacian', 'linear', 'matern', 'polynomial', 'sigmoid')),
        Parameter('loss', '--loss', 'str', 'spectral_contrastive', 'What the representation is trained for; the page on losses in the docs explains it.', choices=('autoencoder', 'barlow_twins', 'byol', 'kernel_pca', 'simclr', 'simple_contrastive', 'spectral_contrastive', 'vicreg')),
        Parameter('views', '--views', 'str', 'auto', 'Small random changes of a row that should not alter its meaning. auto chooses them by the kind of data.', choices=('auto', 'none', 'image', 'tabular'), null='none'),
        Parameter('landmarks', '--landmarks', 'str', 'pivoted_cholesky', 'How landmarks, the rows that all others are compared with, are chosen.', choices=('kmeans_plus_plus', 'leverage', 'pivoted_cholesky', 'uniform')),
        Parameter('n_landmarks', '--n-landmarks', 'int', 1000, 'Number of landmarks. More are better, and slower. all makes every point a landmark, for an exact fit of a few thousand points.', choices=('all',), least=1, null='all'),
        Parameter('solver', '--solver', 'str', 'auto', 'How the loss is minimised.', choices=('auto', 'closed_form', 'full_batch', 'moment_descent', 'sgd')),
        Parameter('regularization', '--regularization', 'float', 1e-05, 'How strongly the representation is smoothed; larger is smoother.', least=0),
        Parameter('feature_noise', '--feature-noise', 'float', 'auto', "Noise added to every view in every direction of the kernel's feature space, its variance as a share of v.", choices=('auto',)),
        Parameter('scale', '--scale', 'str', 'kernel', 'The scale of the components.', choices=('kernel', 'orthonormal', 'unit', 'loss')),
        Parameter('n_folds', '--n-folds', 'int', None, 'Keep sums by this many random folds of the rows, for held-out values in Python.', least=3),
        Parameter('preprocess', '--preprocess', 'str', 'auto', 'How the data are prepared. auto encodes tables and uses arrays as they are; table standardises the columns of an array; normalize standardises the channels of images; none changes nothing.', choices=('auto', 'table', 'normalize', 'none'), panel='Data', null='none'),
        Parameter('device', '--device', 'str', 'auto', 'Where to compute: auto, cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.', panel='Running'),
        Parameter('dtype', '--dtype', 'str', 'auto', 'Precision of kernel values and features. float64 is more exact, and slower. auto is float32, and float64 with --n-landmarks all.', choices=('auto', 'float32', 'float64'), panel='Running'),
        Parameter('kernel__network', '--network', 'str', 'resmlp', 'The network of the kernel empirical_ntk.', choices=('convnet', 'efficientnet_lite0', 'mlp', 'mobilenet_v2', 'resmlp', 'resnet', 'resnet18', 'resnet34', 'resnet50')),
        Parameter('kernel__network__weights', '--weights', 'path', None, 'Weights of the network, an .npz, .safetensors or .pth file. By default they are random.'),
        Parameter('kernel__lengthscale', '--lengthscale', 'float', 'median', 'The distance at which the kernel tells rows apart; rows much nearer than that count as the same. With median it is taken from the data.', choices=('median',)),
        Parameter('solver__max_epochs', '--epochs', 'int', 50, 'The largest number of passes over the training rows.', panel='Training on samples (solver sgd)', least=1),
        Parameter('solver__batch_size', '--batch-size', 'int', 256, 'Rows in each step.', panel='Training on samples (solver sgd)', least=2),
        Parameter('solver__learning_rate', '--learning-rate', 'float', None, 'Size of the steps. By default, a size that suits the preconditioner.', panel='Training on samples (solver sgd)'),
        Parameter('solver__replays', '--replays', 'int', 1, 'How many times an epoch trains on the rows in memory before it reads more.', panel='Training on samples (solver sgd)', least=1),
        Parameter('solver__preconditioner', '--preconditioner', 'str', 'none', 'What the gradients are multiplied by.', choices=('none', 'kernel', 'gauss_newton'), panel='Training on samples (solver sgd)'),
        Parameter('solver__initialization', '--initialization', 'str', 'principal', 'Where training starts.', choices=('principal', 'moments', 'kaiming'), panel='Training on samples (solver sgd)'),
    ),
    "KernelRidgeClassifier": (
        Parameter('kernel', '--kernel', 'str', 'auto', 'How rows are compared. auto compares an L1-Laplacian, a Gaussian and a Laplacian kernel on a sample of the rows.', choices=('auto', 'arc_cosine', 'empirical_ntk', 'gaussian', 'infinite_width', 'laplacian', 'linear', 'matern', 'polynomial', 'sigmoid')),
        Parameter('lengthscale', '--lengthscale', 'float', 'auto', 'The distance at which the kernel tells rows apart. auto tries multiples of the median distance on a sample.', choices=('auto', 'median')),
        Parameter('input_metric', '--input-metric', 'str', 'diagonal', 'Learn from the target how much each column counts (diagonal), or also how columns are turned (full). auto tries both. A learned metric is used only where it predicts better.', choices=('diagonal', 'full', 'auto', 'none'), null='none'),
        Parameter('penalty', '--penalty', 'float', 'auto', 'How smooth the function is; larger is smoother. auto takes the one with the lowest error on rows that were left out.', choices=('auto',)),
        Parameter('fit_intercept', '--no-intercept', 'flag', True, 'Leave out the constant, which is not penalised.', flag=False),
        Parameter('loss', '--loss', 'str', 'squared', 'What is minimised.', choices=('squared', 'logistic', 'squared_hinge')),
        Parameter('solver', '--solver', 'str', 'auto', 'direct decomposes sums that one pass over the rows gives.', choices=('auto', 'direct', 'conjugate_gradients')),
        Parameter('class_weight', '--class-weight', 'str', None, 'How much the rows of each class count; balanced makes all classes weigh the same.', choices=('balanced',)),
        Parameter('landmarks', '--landmarks', 'str', 'pivoted_cholesky', 'How landmarks, the rows that all others are compared with, are chosen.', choices=('kmeans_plus_plus', 'leverage', 'pivoted_cholesky', 'uniform')),
        Parameter('n_landmarks', '--n-landmarks', 'int', 'auto', 'Number of landmarks, the rows that all others are compared with. More are better, and slower. auto is 1000, none is all rows.', choices=('auto', 'none'), least=1, null='none'),
        Parameter('n_folds', '--n-folds', 'int', 5, 'Folds by which the penalty is chosen where there are more rows than --n-kept, and for prediction intervals.', least=3),
        Parameter('n_kept', '--n-kept', 'int', 20000, 'How many rows, at most, are kept in the file, for held-out scores, probabilities and intervals.', least=1),
        Parameter('n_spaces', '--n-spaces', 'int', 1, 'How many of the kernels that did best on the sample are summed in the read, and compared by their exact errors on folds of all rows; space_errors_ has these.', least=1),
        Parameter('preprocess', '--preprocess', 'str', 'auto', 'How the data are prepared. auto encodes tables; the columns of an array are used as given or standardised, whichever predicts better.', choices=('auto', 'table', 'normalize', 'none'), panel='Data', null='none'),
        Parameter('device', '--device', 'str', 'auto', 'Where to compute: auto, cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.', panel='Running'),
        Parameter('dtype', '--dtype', 'str', 'auto', 'Precision of kernel values and features. auto is float64 up to 20,000 rows.', choices=('auto', 'float32', 'float64'), panel='Running'),
    ),
    "GaussianProcessRegressor": (
        Parameter('amplitude', '--amplitude', 'float', 'auto', 'The variance of the function before any data, over k(x, x), in units of the variance of y.', choices=('auto',)),
        Parameter('noise', '--noise', 'float', 'auto', 'The variance of the noise in y, in units of the variance of y.', choices=('auto',)),
    ),
    "SubspaceClustering": (
        Parameter('n_clusters', '--n-clusters -k', 'int', None, 'The number of clusters. By default it is estimated from the affinity.', least=1),
        Parameter('kernel', '--kernel', 'str', 'auto', 'How rows are compared. auto is a Gaussian kernel that follows the data.', choices=('auto', 'arc_cosine', 'empirical_ntk', 'gaussian', 'infinite_width', 'laplacian', 'linear', 'matern', 'polynomial', 'sigmoid')),
        Parameter('n_iterations', '--n-iterations', 'int', 8, 'The largest number of times that the metric is learned.', least=0),
        Parameter('regularization', '--regularization', 'float', 1.0, 'The ridge of the regressions. A larger ridge spreads the coefficients.', least=0),
        Parameter('projection', '--projection', 'str', 'precision', 'How the metric is learned from the data. none learns no metric (KTRR).', choices=('precision', 'covariance', 'inverse', 'none'), null='none'),
        Parameter('truncation', '--truncation', 'int', 7, 'How many of its largest coefficients each row keeps; 0 keeps all.', choices=('none',), least=0, null='none'),
        Parameter('normalization', '--normalization', 'str', 'auto', 'How rows are scaled after the metric has changed.', choices=('auto', 'unit', 'global', 'none')),
        Parameter('selection', '--selection', 'str', 'eigengap', 'Which iteration is taken: the one with the clearest clusters, or the last.', choices=('eigengap', 'last')),
        Parameter('coding', '--coding', 'str', 'ridge', 'How each row is written as a weighted sum of the others.', choices=('ridge', 'least_squares', 'matching_pursuit', 'elastic_net')),
        Parameter('n_landmarks', '--n-landmarks', 'int', 'auto', 'Landmarks for the regressions.', choices=('auto', 'none'), least=1, null='none'),
        Parameter('n_init', '--n-init', 'int', 10, 'How many times K-means starts.', least=1),
    ),
    "search": (
        Parameter('n_trials', '--trials', 'int', 20, 'Total number of trials, including those of earlier runs of the same study.', panel='Search', least=1),
        Parameter('sampler', '--sampler', 'str', 'random', 'How parameters are drawn. tpe draws near parameters that did well before.', choices=('random', 'tpe'), panel='Search'),
        Parameter('metric', '--metric', 'str', 'auto', 'What is maximised. auto takes the balanced accuracy where one class is more than twice as large as another.', choices=('accuracy', 'balanced_accuracy', 'auto'), panel='Search'),
        Parameter('validation_fraction', '--validation-fraction', 'float', None, 'Share of the rows that the model does not see and whose labels are used. By default 2 % of images, 10 % of other rows, and at least 20 rows of every class.', panel='Search'),
        Parameter('label_fraction', '--label-fraction', 'float', 0.5, 'Share of these labels that the classifier learns from; the others score it.', panel='Search'),
    ),
    "probe_protocol": (
        Parameter('n_repeats', '--repeats', 'int', 5, 'How many times labels are drawn. The table shows the mean and the deviation over these draws.', panel='Protocol', least=1),
    ),
    "linear_probe": (
        Parameter('classifier', '--classifier', 'str', 'logistic', 'The linear classifier: logistic regression, or the support vector machine of the paper (svm).', choices=('logistic', 'svm'), panel='Protocol'),
    ),
    "write_report": (
        Parameter('title', '--title', 'str', None, 'The title of the page.', panel='Report'),
        Parameter('max_rows', '--max-rows', 'int', 5000, 'The largest number of rows on the page. If there are more, a random sample is shown.', panel='Report', least=1),
        Parameter('samples', '--no-samples', 'flag', True, "Leave real rows out of the page; otherwise everyone who opens it can see them. The page still holds row numbers, places on the map, coverage, influences, contributions, the model's description, and the labels and concepts that you give.", panel='Report', flag=False),
    ),
    "transferability": (
        Parameter('n_permutations', '--permutations', 'int', 99, 'How many times labels are shuffled for the p-values of sketches.', panel='Scores', least=1),
        Parameter('max_width', '--max-width', 'int', 2048, 'Files with more features than this are sketched, and have no LogME and no H-score, which need d x d memory.', panel='Scores', least=1),
    ),
    "prune_ensemble": (
        Parameter('method', '--method', 'str', 'alignment', 'alignment chooses members by kernel alignment and then weighs them, stacking weighs all members by non-negative least squares, r2 keeps the one best member.', choices=('alignment', 'stacking', 'r2'), panel='Method'),
        Parameter('task', '--task', 'str', 'auto', 'What is predicted. auto reads numbers as classes if they are labels of the target, and as probabilities if they lie between 0 and 1 and the target has two classes.', choices=('auto', 'regression', 'classification'), panel='Method'),
        Parameter('predictions', '--out-of-bag', 'flag', 'auto', 'Empty cells mean that a member was trained on that row. Without this option they are an error.', panel='Method', flag='out_of_bag'),
    ),
    "Size": (
        Parameter('test_rows', '--test-rows', 'int', 5000, 'The largest number of test rows.', panel='Size', least=100),
        Parameter('labels', '--labels', 'int', None, 'Labelled training rows. By default a tenth of --rows.', panel='Size', least=20),
        Parameter('landmarks', '--n-landmarks', 'int', 500, 'Landmarks of every model.', panel='Size', least=1),
        Parameter('components', '--n-components', 'int', 64, 'Width of every representation.', panel='Size', least=1),
        Parameter('epochs', '--epochs', 'int', 20, 'The largest number of epochs, where a model is trained on samples.', panel='Size', least=1),
    ),
}
