# SPDX-License-Identifier: Apache-2.0
"""The version of this package, which is that of the C library it needs."""

__version__ = "0.1.0"
