# SPDX-License-Identifier: Apache-2.0
"""Embeddings that lie on a GPU; needs torch and a GPU."""
# begin
import torch

from holdfast import KMeans

topics = torch.randn(1000, 768, device="cuda")
topic = torch.randint(1000, (1_000_000,), device="cuda")
embeddings = (topics[topic] + 2 * torch.randn(1_000_000, 768, device="cuda")).bfloat16()

km = KMeans(1000, metric="cosine", random_state=0, output="like").fit(embeddings)
print(km.labels_.device, km.cluster_centers_.shape)  # cuda:0 torch.Size([1000, 768])
nearest = km.transform(embeddings[:10]).argmin(dim=1)
assert torch.equal(nearest, km.labels_[:10].long())
print(km.report_["seconds"], km.report_["kernels"])
