"""The examples of a page, run as somebody does who types them in: ``python -m tests.page_examples PAGE``.

The exit status is 0 if each does what the page says. A process of its own knows nothing of what other tests have done.
"""

import doctest
import re
import sys
from pathlib import Path

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def blocks_of(page):
    """Return the blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run(page):
    """Run them; return how many lines did something else."""
    names = {}  # what a page has defined, the rest of the page uses
    failed = 0
    for i, block in enumerate(blocks_of(page)):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, {}, f"{page.name}[{i}]", str(page), 0)
            test.globs = names
            failed += doctest.DocTestRunner(optionflags=OPTIONS).run(test, clear_globs=False).failed
        else:
            exec(compile(block, f"{page.name}[{i}]", "exec"), names)  # noqa: S102 that is what an example is for
    return failed


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])) > 0)
