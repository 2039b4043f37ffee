"""Write what comes from code and results: states, kinds, figures in `docs/`, the tools of `clients/tools.json`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.api import brought_tools
from tests.bench import page as figures
from tests.core.tables.page import TABLES, draw

draw()
brought_tools.draw()
figures.draw()
print(f"{len(TABLES)} tables of states, the kinds, the tools, and {len(figures.TABLES)} tables of figures")
