"""scikit-learn computing on our arrays by array API dispatch; `test_sklearn.py` runs this in a process of its own."""

import numpy as np
import pytest
import sklearn
from sklearn import decomposition, discriminant_analysis, linear_model, metrics, naive_bayes, preprocessing

import oxinp

X = np.random.default_rng(0).normal(size=(300, 4))
Y = X @ np.array([1.0, 2, 3, 4])
LABELS = (Y > 0).astype(np.int64)


def close(ours, numpys):
    assert type(ours) is oxinp.ndarray
    assert np.allclose(np.asarray(ours), numpys, rtol=1e-9, atol=1e-12)


@pytest.fixture(autouse=True)
def _dispatch(offload_threshold):  # noqa: ARG001 - a fixture
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.filterwarnings("ignore")
class TestDispatch:
    def test_linear_discriminant_analysis(self):
        numpys = discriminant_analysis.LinearDiscriminantAnalysis().fit(X, LABELS)
        ours = discriminant_analysis.LinearDiscriminantAnalysis().fit(oxinp.asarray(X), oxinp.asarray(LABELS))
        close(ours.coef_, numpys.coef_)
        close(ours.predict(oxinp.asarray(X)), numpys.predict(X))

    @pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
    def test_principal_components(self, solver):
        numpys = decomposition.PCA(2, svd_solver=solver).fit(X)
        ours = decomposition.PCA(2, svd_solver=solver).fit(oxinp.asarray(X))
        close(ours.components_, numpys.components_)
        close(ours.transform(oxinp.asarray(X)), numpys.transform(X))

    @pytest.mark.parametrize("name", ["StandardScaler", "MinMaxScaler", "MaxAbsScaler", "Normalizer"])
    def test_scalers(self, name):
        scaler = getattr(preprocessing, name)
        close(scaler().fit_transform(oxinp.asarray(X)), scaler().fit_transform(X))

    def test_naive_bayes(self):
        numpys = naive_bayes.GaussianNB().fit(X, LABELS)
        ours = naive_bayes.GaussianNB().fit(oxinp.asarray(X), oxinp.asarray(LABELS))
        close(ours.theta_, numpys.theta_)

    def test_metrics(self):
        assert metrics.mean_squared_error(oxinp.asarray(Y), oxinp.asarray(Y) + 1) == 1
        assert metrics.accuracy_score(oxinp.asarray(LABELS), oxinp.asarray(LABELS)) == 1


@pytest.mark.filterwarnings("ignore")
def test_without_dispatch_arrays_become_numpys():
    with sklearn.config_context(array_api_dispatch=False):
        fitted = linear_model.Ridge().fit(oxinp.asarray(X), oxinp.asarray(Y))
    assert np.allclose(fitted.coef_, linear_model.Ridge().fit(X, Y).coef_)
