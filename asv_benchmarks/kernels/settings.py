"""Constants of kernel families that a benchmark sets for its run, to choose between values by measurement."""

import ast
import importlib


def add_option(parser):
    """Give a command line the option ``--set sort.bitonic.MAX_BITS=0``, which may be given several times."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="MODULE.NAME=VALUE", help="of a module of oxinp._kernels"
    )


def apply(settings):
    """Set constants before anything has been planned.

    Parameters
    ----------
    settings : sequence of str
        What `add_option` says.

    Raises
    ------
    AttributeError
        A module has no such constant.
    """
    for setting in settings:
        path, _, value = setting.partition("=")
        name, _, constant = path.rpartition(".")
        module = importlib.import_module(f"oxinp._kernels.{name}")
        getattr(module, constant)
        setattr(module, constant, ast.literal_eval(value))
