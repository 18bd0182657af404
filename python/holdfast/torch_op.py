# SPDX-License-Identifier: Apache-2.0
"""``matmul()`` as an operator of torch: ``import holdfast.torch_op`` makes
``torch.ops.holdfast.matmul(a, b, guard="off", portable=False)``, which has gradients and can stand in
functions that ``torch.compile`` takes. It is not imported by ``import holdfast``, which does without
torch."""

from typing import Any

import torch

from .products import matmul as _matmul


def _compute(
    a: torch.Tensor, b: torch.Tensor, guard: str = "off", portable: bool = False
) -> torch.Tensor:
    product: torch.Tensor = _matmul(a, b, guard=guard, portable=portable)
    return product


def _sides(a: Any, b: Any) -> tuple[Any, Any]:
    """A vector is a row in `a`, a column in `b`."""
    return (a[None, :] if a.dim() == 1 else a), (b[:, None] if b.dim() == 1 else b)


def _shape(a: Any, b: Any, guard: str = "off", portable: bool = False) -> Any:
    """What the product looks like, without computing it."""
    x, y = _sides(a, b)
    shape = list(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    shape += [] if a.dim() == 1 else [x.shape[-2]]
    shape += [] if b.dim() == 1 else [y.shape[-1]]
    return a.new_empty(shape, dtype=torch.int32 if a.dtype == torch.int8 else a.dtype)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    a, b, ctx.guard, ctx.portable = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, grad: Any) -> tuple[Any, Any, None, None]:
    """Those of both operands are products, too, under the same guard."""
    a, b = ctx.saved_tensors
    x, y = _sides(a, b)
    grad = grad.unsqueeze(-1) if b.dim() == 1 else grad
    grad = grad.unsqueeze(-2) if a.dim() == 1 else grad
    of_a = matmul(grad, y.mT, ctx.guard, ctx.portable).sum_to_size(x.shape).reshape(a.shape)
    of_b = matmul(x.mT, grad, ctx.guard, ctx.portable).sum_to_size(y.shape).reshape(b.shape)
    return of_a, of_b, None, None


matmul = torch.library.custom_op("holdfast::matmul", _compute, mutates_args=())
matmul.register_fake(_shape)
matmul.register_autograd(_gradients, setup_context=_keep)
