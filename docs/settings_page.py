"""Write docs/settings.md from the table of settings: ``python docs/settings_page.py``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "settings.md"
sys.path.insert(0, str(ROOT))

from oxinp._config import SETTINGS, default_cache_dir  # noqa: E402 - found by the line above

HEAD = """# Settings

`oxinp.config` holds the settings; each has an environment variable, read once when oxinp is imported, for its first
value. A value that is not legal is refused where it is set. This page is written from the table in `oxinp/_config.py`
by `python docs/settings_page.py`.

```python
import oxinp as np

np.config.fallback = "warn"
with np.config.override(fallback="error", synchronous=True):
    y = np.ones(10).sum()
print(np.config)  # all of them
```

"""


def page():
    """Return docs/settings.md: the table as it is."""
    lines = [line for row in SETTINGS for line in section(row)]
    return HEAD + "\n".join(lines) + "\n"


def section(row):
    """Return the lines about one setting."""
    default = "the user's cache directory, `~/.cache/oxinp` on Linux" if row.default is default_cache_dir else None
    return [
        f"## {row.name}",
        "",
        f"{row.meaning[0].upper()}{row.meaning[1:]}.",
        "",
        "| | |",
        "|---|---|",
        f"| variable | `{row.variable}` |",
        f"| legal values | {row.legal} |",
        f"| default | {default or f'`{row.default()!r}`'} |",
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(page().rstrip() + "\n", encoding="utf-8")
