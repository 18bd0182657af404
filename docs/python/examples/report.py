# SPDX-License-Identifier: Apache-2.0
import os
import tempfile

from sklearn.datasets import load_digits

from holdfast import KMeans, report

X, _ = load_digits(return_X_y=True)
km = KMeans(30, random_state=0).fit(X)
path = os.path.join(tempfile.mkdtemp(), "digits.png")
report.plot(km, path)

import matplotlib.image as image
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(8, 5.6))
ax.imshow(image.imread(path))
ax.axis("off")
