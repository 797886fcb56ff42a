#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's models, imported before PyTorch, after it or without it: what they predict.

    python tests/packages/values/sklearn_models.py torch-first > plain.txt

Which OpenMP runtime scikit-learn is bound to depends on who was first. One line a model: its score and a hash of its
predictions. Two runs print the same bytes, at a fixed number of threads.
"""

import argparse
import hashlib
import warnings


def models():
    """Each with OpenMP, BLAS, threads or processes of its own."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    yield "boosting", HistGradientBoostingRegressor(max_iter=30, random_state=0)
    yield "kmeans", KMeans(5, n_init=2, random_state=0)
    yield "forest", RandomForestClassifier(20, n_jobs=2, random_state=0)
    yield "neighbours", KNeighborsClassifier(n_jobs=2)
    yield "logistic", make_pipeline(PCA(8, svd_solver="full"), LogisticRegression())
    yield "perceptron", MLPClassifier((32,), max_iter=5, random_state=0)
    yield "bagging", BaggingRegressor(Ridge(), 4, n_jobs=2, random_state=0)  # in processes of joblib's


def main() -> None:
    """Imports in the order that is asked for, fits, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("order", choices=("torch-first", "sklearn-first", "alone"))
    order = parser.parse_args().order
    warnings.simplefilter("ignore")
    if order == "torch-first":
        import torch  # noqa: F401
    import numpy as np
    import sklearn.cluster
    import sklearn.ensemble  # noqa: F401

    if order == "sklearn-first":
        import torch  # noqa: F401, F811

    if order != "alone":
        square = torch.ones(300, 300)
        print("torch", int((square @ square).sum().item()))
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3000, 20)) + 6 * rng.integers(0, 5, size=(3000, 1))
    y = (x[:, 0] * x[:, 1] > 60).astype(np.int64)
    for name, model in models():
        predicted = np.asarray(model.fit(x, y).predict(x))
        bits = hashlib.sha256(predicted.tobytes()).hexdigest()[:12]
        print(f"{name} {model.score(x, y):.9g} {bits}", flush=True)


if __name__ == "__main__":
    main()
