# SPDX-License-Identifier: Apache-2.0
"""holdfast as the smoother of a pyamg hierarchy.

    ml = pyamg.smoothed_aggregation_solver(A)
    use_holdfast(ml)
    x = ml.solve(b, accel="cg")

pyamg's change_smoothers() takes names of its own smoothers only, but a cycle calls
level.presmoother(A, x, b), which may be anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import holdfast


def use_holdfast(
    ml: Any,
    method: str = "async",
    iterations: int = 1,
    options_of: Callable[[Any], dict[str, Any]] | None = None,
    **options: Any,
) -> Any:
    """Let holdfast smooth all levels but the coarsest, before and after; returns ml.

    Smoothers are symmetric, so that the cycle can precondition cg. options_of(level.A) gives
    options of a level, such as {"damping": 0.7}.
    """
    for level in ml.levels[:-1]:
        own = options_of(level.A) if options_of else {}
        smoother = holdfast.Smoother(
            level.A, method, iterations=iterations, symmetric=True, **{**options, **own}
        )
        level.presmoother = level.postsmoother = smoother
    return ml
