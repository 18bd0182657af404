# SPDX-License-Identifier: Apache-2.0
"""holdfast as the preconditioner of SciPy's Krylov methods.

    x, info = scipy.sparse.linalg.cg(A, b, M=preconditioner(A))

cg needs a symmetric operator, so that is the default; gmres and bicgstab take others too.
"""

from __future__ import annotations

from typing import Any

import holdfast


def preconditioner(
    A: Any, method: str = "schwarz", iterations: int = 1, symmetric: bool = True, **options: Any
) -> Any:
    """Iterations on A x = b from zero, as a LinearOperator, which keeps A's arrays alive."""
    smoother = holdfast.Smoother(A, method, iterations=iterations, symmetric=symmetric, **options)
    return smoother.operator()
