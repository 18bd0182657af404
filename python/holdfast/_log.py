# SPDX-License-Identifier: Apache-2.0
"""One line a call where HOLDFAST_LOG asks for it."""

from __future__ import annotations

import os
import sys

TYPES = {1: "float32", 2: "float64", 3: "float16", 4: "bfloat16", 5: "uint8"}
enabled = os.environ.get("HOLDFAST_LOG", "").lower() in ("info", "debug")


def line(text: str) -> None:
    """Write a line to standard error."""
    if enabled:
        sys.stderr.write(f"holdfast: {text}\n")
        sys.stderr.flush()
