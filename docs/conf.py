"""The site: `make docs` builds it in docs/_build/html, without the network.

Pages are the Markdown files of this folder. Three small extensions in `_ext` write what nobody should write by hand:
the reference of public names, the reference of commands, and the gallery's order.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("COLUMNS", "100")  # tables that the gallery's examples print

import krepes  # noqa: E402

project = "krepes"
author = "the krepes developers"
copyright = author
version = release = krepes.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "plain_docstrings",
    "public_reference",
    "command_reference",
    "decision_figure",
    "repository_links",
]
exclude_patterns = ["_build", "_ext", "_templates", "gallery/*.ipynb", "**/*.md5"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
default_role = "code"
smartquotes = False  # code and formulas in docstrings keep their characters

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "ExampleTitleSortKey",
    "plot_gallery": os.environ.get("KREPES_DOCS_GALLERY", "run") == "run",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 5,
    "show_memory": False,
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "krepes"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "start": []}
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
