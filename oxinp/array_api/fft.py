"""The standard's extension `fft`: the functions of `oxinp.fft`, with arrays for scalars."""

from typing import Any

from oxinp.array_api._functions import find

_NAMES = "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn"
__all__ = _NAMES.split()  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    value = globals()[name] = find("oxinp.fft", __name__, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
