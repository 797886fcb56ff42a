# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own parallel parts: OpenMP (boosting), OpenMP and BLAS (KMeans), joblib over BLAS (forest)."""

from collections.abc import Callable

import numpy as np


def make_step(seed: int, model: str) -> Callable[[], float]:
    """One fit; what it returns stands for the loss."""
    rng = np.random.default_rng(seed)
    return {"boosting": boosting, "kmeans": kmeans, "forest": forest}[model](rng)


def labelled(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of noise and which side of a random plane they lie on."""
    x = rng.normal(size=(rows, columns))
    return x, (x @ rng.normal(size=columns) > 0).astype(np.int64)


def boosting(rng: np.random.Generator) -> Callable[[], float]:
    """Ten trees of HistGradientBoostingClassifier."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = labelled(rng, 8000, 16)
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0, early_stopping=False)
    return lambda: model.fit(x, y).score(x[:100], y[:100])


def kmeans(rng: np.random.Generator) -> Callable[[], float]:
    """KMeans, one start, ten rounds."""
    from sklearn.cluster import KMeans

    x = rng.normal(size=(20000, 16))
    model = KMeans(16, n_init=1, max_iter=10, tol=0, random_state=0)
    return lambda: model.fit(x).inertia_


def forest(rng: np.random.Generator) -> Callable[[], float]:
    """Four folds, two at a time: principal components (LAPACK, with threads of its own), then a forest on them."""
    from joblib import Parallel, delayed
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    x, y = labelled(rng, 2000, 120)
    folds = [np.arange(len(x)) % 4 != fold for fold in range(4)]

    def fit(rows: np.ndarray) -> float:
        trees = RandomForestClassifier(4, max_depth=6, random_state=0)
        model = make_pipeline(PCA(20, svd_solver="full"), trees).fit(x[rows], y[rows])
        return model.score(x[~rows], y[~rows])

    return lambda: sum(Parallel(n_jobs=2, prefer="threads")(delayed(fit)(rows) for rows in folds)) / 4
