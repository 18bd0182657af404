# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from holdfast import KMeans

picture = load_sample_image("china.jpg")  # bytes: used as they are
pixels = picture.reshape(-1, 3)
km = KMeans(16, random_state=0).fit(pixels)
few = km.cluster_centers_[km.labels_].reshape(picture.shape)

figure, axes = plt.subplots(1, 2)
axes[0].imshow(picture)
axes[0].set_title("24 bits a pixel", fontsize=9)
axes[1].imshow(np.round(few).astype("u1"))
axes[1].set_title("16 colours, 4 bits a pixel", fontsize=9)
for ax in axes:
    ax.axis("off")
