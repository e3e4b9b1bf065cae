"""Green contexts: shares of the device's multiprocessors, for work that is not to be in each other's way."""

from __future__ import annotations

from oxinp._driver import errors, green
from oxinp.cuda import current

__all__ = ["GreenContext"]


class GreenContext:
    """A share of the multiprocessors of the current device; ``Stream(green=...)`` runs on nothing else.

    Made by `split`. Arrays, kernels and memory are those of the device as ever.

    Attributes
    ----------
    num_sms : int
        Multiprocessors that it has.

    Examples
    --------
    >>> import oxinp as np
    >>> if np.cuda.is_available():
    ...     small, large = np.cuda.GreenContext.split(16, 64)
    ...     with np.cuda.Stream(green=small):
    ...         x = np.ones(1_000_000) * 2
    """

    __slots__ = ("_green",)

    def __init__(self, made: green.GreenContext) -> None:
        self._green = made

    @classmethod
    def split(cls, *num_sms: int) -> list[GreenContext]:
        """Return shares that have no multiprocessor in common.

        Parameters
        ----------
        *num_sms : int
            How many each has at least: multiprocessors come in groups, of 8 on compute capability 9.0.

        Raises
        ------
        NotSupported
            There is no GPU, or its driver is older than CUDA 12.5.
        InvalidValue
            A number is not positive, or there are not so many left.
        """
        backend = current.cuda_backend()
        if backend is None:
            raise errors.NotSupported("green contexts need a GPU: oxinp.cuda.is_available() is False here")
        return [cls(made) for made in green.split(backend.context, *num_sms)]

    @property
    def num_sms(self) -> int:
        """Multiprocessors that it has."""
        return self._green.num_sms

    def __repr__(self) -> str:
        return f"<GreenContext of {self.num_sms} multiprocessors>"
