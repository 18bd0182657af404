# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the Python pages."""

import holdfast

project = "holdfast"
author = "the holdfast authors"
release = version = holdfast.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
]
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False}
exclude_patterns = ["examples/*.rst"]
numpydoc_show_class_members = False
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {"figure.constrained_layout.use": True, "figure.figsize": (7, 3.4)}
plot_apply_rcparams = True
