"""Write docs/coverage.md from the coverage table: ``python docs/coverage_page.py``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from oxinp._api import coverage

    PAGE.write_text(coverage.page(), encoding="utf-8")
