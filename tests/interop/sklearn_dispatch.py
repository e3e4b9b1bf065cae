"""scikit-learn computing on our arrays by array API dispatch; `test_sklearn.py` runs this in a process of its own."""

import functools

import numpy as np
import pytest
import sklearn
from sklearn import (
    calibration,
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    model_selection,
    naive_bayes,
    preprocessing,
)

import oxinp

X = np.random.default_rng(0).normal(size=(300, 4))
Y = X @ np.array([1.0, 2, 3, 4])
LABELS = (Y > 0).astype(np.int64)
SCORES = 1 / (1 + np.exp(-Y))
GRAM = X @ X.T

# THE ESTIMATORS: what makes one, what it is fitted to beside its data, its attributes that are arrays, its methods.
PCA = decomposition.PCA
ESTIMATORS = {
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis,
        LABELS,
        ("coef_",),
        ("predict", "transform"),
    ),
    "PCA-full": (functools.partial(PCA, 2, svd_solver="full"), None, ("components_",), ("transform",)),
    "PCA-eigh": (functools.partial(PCA, 2, svd_solver="covariance_eigh"), None, ("components_",), ("transform",)),
    "PCA-randomized": (
        functools.partial(PCA, 2, svd_solver="randomized", random_state=0),
        None,
        ("components_",),
        ("transform",),
    ),
    "Ridge": (functools.partial(linear_model.Ridge, solver="svd"), Y, ("coef_",), ("predict",)),
    "RidgeCV": (linear_model.RidgeCV, Y, ("coef_",), ("predict",)),
    "RidgeClassifier": (
        functools.partial(linear_model.RidgeClassifier, solver="svd"),
        LABELS,
        ("coef_",),
        ("predict",),
    ),
    "RidgeClassifierCV": (linear_model.RidgeClassifierCV, LABELS, ("coef_",), ("predict",)),
    "LogisticRegression": (linear_model.LogisticRegression, LABELS, ("coef_",), ("predict", "predict_proba")),
    "GaussianNB": (naive_bayes.GaussianNB, LABELS, ("theta_", "var_"), ("predict",)),
    "GaussianMixture": (
        functools.partial(mixture.GaussianMixture, 2, random_state=0, init_params="random"),
        None,
        ("means_",),
        ("predict",),
    ),
    "KernelCenterer": (preprocessing.KernelCenterer, None, (), ("transform",)),
    "Nystroem": (
        functools.partial(kernel_approximation.Nystroem, n_components=5, random_state=0),
        None,
        (),
        ("transform",),
    ),
    **{
        name: (getattr(preprocessing, name), None, (), ("transform",))
        for name in """
    Binarizer MaxAbsScaler MinMaxScaler Normalizer PolynomialFeatures StandardScaler
    """.split()  # noqa: SIM905 - readable as it is
    },
}
OF_LABELS = {
    name: getattr(metrics, name)
    for name in """
    accuracy_score balanced_accuracy_score cohen_kappa_score confusion_matrix f1_score hamming_loss jaccard_score
    matthews_corrcoef precision_score recall_score zero_one_loss
    """.split()  # noqa: SIM905 - readable as it is
}
OF_SCORES = {
    name: getattr(metrics, name)
    for name in """
    average_precision_score brier_score_loss det_curve log_loss precision_recall_curve roc_auc_score roc_curve
    """.split()  # noqa: SIM905 - readable as it is
}
OF_NUMBERS = {
    name: getattr(metrics, name)
    for name in """
    d2_absolute_error_score explained_variance_score max_error mean_absolute_error mean_absolute_percentage_error
    mean_pinball_loss mean_squared_error mean_squared_log_error mean_tweedie_deviance median_absolute_error r2_score
    """.split()  # noqa: SIM905 - readable as it is
}
OF_ROWS = {
    name: getattr(metrics.pairwise, name)
    for name in """
    cosine_similarity euclidean_distances pairwise_distances polynomial_kernel rbf_kernel
    """.split()  # noqa: SIM905 - readable as it is
}
METRICS = {
    **{name: (function, LABELS, np.roll(LABELS, 1)) for name, function in OF_LABELS.items()},
    **{name: (function, LABELS, SCORES) for name, function in OF_SCORES.items()},
    **{name: (function, SCORES, SCORES / 2) for name, function in OF_NUMBERS.items()},
    **{name: (function, X) for name, function in OF_ROWS.items()},
    "cross_val_score": (
        lambda x, y: model_selection.cross_val_score(linear_model.Ridge(solver="svd"), x, y),
        X,
        Y,
    ),
    "train_test_split": (lambda x: tuple(model_selection.train_test_split(x, random_state=0)), X),
    "temperature scaling": (
        lambda x, y: (
            calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="temperature")
            .fit(x, y)
            .predict_proba(x)
        ),
        X,
        LABELS,
    ),
}


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(0, marks=pytest.mark.slow, id="threshold-0"),
        pytest.param(float("inf"), id="threshold-inf"),
    ],
)
def _dispatch(request, config):
    config.offload_threshold = request.param
    with sklearn.config_context(array_api_dispatch=True):
        yield


def _close(ours, numpys):
    if isinstance(numpys, tuple):
        return all(_close(mine, theirs) for mine, theirs in zip(ours, numpys, strict=True))
    return np.allclose(np.asarray(ours), numpys, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    make, target, attributes, methods = ESTIMATORS[name]
    data = GRAM if name == "KernelCenterer" else X
    found = []
    for convert in (oxinp.asarray, np.asarray):
        x = convert(data)
        fitted = make().fit(x) if target is None else make().fit(x, convert(target))
        found.append([getattr(fitted, attribute) for attribute in attributes])
        found[-1] += [getattr(fitted, method)(x) for method in methods]
    for ours, numpys in zip(*found, strict=True):
        assert type(ours) is oxinp.ndarray
        assert _close(ours, numpys)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    function, *arrays = METRICS[name]
    assert _close(function(*map(oxinp.asarray, arrays)), function(*arrays))


@pytest.mark.filterwarnings("ignore")
def test_without_dispatch_arrays_become_numpys():
    with sklearn.config_context(array_api_dispatch=False):
        fitted = linear_model.Ridge().fit(oxinp.asarray(X), oxinp.asarray(Y))
    assert np.allclose(fitted.coef_, linear_model.Ridge().fit(X, Y).coef_)
