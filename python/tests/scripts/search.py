# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose number of clusters is searched for: centroid distances as features."""

import time

from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

x, y = load_digits(return_X_y=True)
pipe = make_pipeline(
    MinMaxScaler(), KMeans(n_init=3, random_state=0, max_iter=50), RidgeClassifier()
)
begin = time.perf_counter()
search = GridSearchCV(pipe, {"kmeans__n_clusters": [10, 40]}, cv=3).fit(x, y)
print("seconds", time.perf_counter() - begin)
print("result clusters", search.best_params_["kmeans__n_clusters"])
print("result passes", float(search.best_score_ > 0.8))
