"""Where bytes live and kernels run: backends, memory, counters and the cache of compiled kernels.

`current` gives the backend, `latest` the one that was in use last, `why_host` the reason where there is none,
`counters.stats` what was done.
"""

from oxinp._runtime.select import current, latest, why_host

__all__ = ["current", "latest", "why_host"]
