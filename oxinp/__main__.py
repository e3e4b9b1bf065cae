"""``python -m oxinp``: an unmodified NumPy program on the GPU; ``info`` and ``tune``."""

import importlib
import os
import sys
from collections.abc import Callable

from oxinp._config import config
from oxinp._runner import info, program, worker
from oxinp._runtime import hooks, select
from oxinp._runtime.backend import BackendUnavailable
from oxinp._terminal import closing_quietly
from oxinp._version import __version__

NAME = f"{sys.executable} -m oxinp"
USAGE = f"usage: {NAME} [option] ... [-c cmd | -m mod | file | - | info | tune] [arg] ..."
HELP = f"""{USAGE}
Run a NumPy program with `numpy` bound to oxinp, in the program and in the modules beside it.

Options:
--strict         : raise FallbackError where NumPy would have to do the work on the host
--backend NAME   : auto, cuda, emulator or host; also OXINP_BACKEND
--profile[=FILE] : say at the end what each line cost; into FILE as JSON
--trace FILE     : write what the device did when into FILE, for chrome://tracing
--verify[=RTOL]  : run NumPy beside; end with 1 at the first line whose result differs
-h, --help       : print this
-V, --version    : print the version of oxinp

What is run, with its own arguments after it:
file             : a script, or a folder that holds a __main__.py
-                : a script from standard input
-m mod           : a module, as python -m runs it
-c cmd           : a program given as text
info             : nothing; print versions, backend, device, memory and cache
tune             : nothing; measure what is fastest on this GPU and keep it (tune -h)"""


def refuse(message: str) -> None:
    """End as Python does at options that it does not know."""
    sys.stderr.write(f"{message}\n{USAGE}\nTry `{NAME} -h' for more information.\n")
    sys.exit(2)


def show(text: str) -> None:
    """Print and end."""
    with closing_quietly():
        print(text)
    sys.exit(0)


def set_backend(name: str) -> None:
    """Choose the backend; one that is not to be had ends the run before the program starts."""
    try:
        config.backend = name
    except ValueError as error:
        refuse(f"--backend: {error}")


def say_host(reason: str) -> None:
    """Say, once, that there is no GPU, where the program would use one."""
    if os.getpid() == PROCESS:  # not again in forked workers
        why = reason.partition(". ")[0].removesuffix(".")
        sys.stderr.write(f"oxinp: no GPU, so the program runs on the host, on NumPy: {why}\n")


PROCESS = os.getpid()

# Options that may have a value: the module whose `start` takes it, or "", before the program begins.
TOOLS = {
    "--profile": "oxinp._runner.profile_report",
    "--trace": "oxinp._runner.trace",
    "--verify": "oxinp._runner.verify",
}


def main(arguments: list[str]) -> None:
    """Read the options, which end where the program begins, and run it."""
    rest = list(arguments)
    tools: dict[str, str] = {}
    before = {name: getattr(config, name) for name in ("backend", "fallback")}
    takers: dict[str, Callable[[str], None]] = {
        "--backend": set_backend,
        "--trace": lambda path: tools.update({"--trace": path}),
    }
    while rest:
        option, *rest = rest
        name, is_joined, value = option.partition("=")
        if option == "--strict":
            config.fallback = "error"
        elif name in takers:
            if not is_joined:
                if not rest:
                    refuse(f"Argument expected for the {name} option")
                value, *rest = rest
            takers[name](value)
        elif name in TOOLS:
            tools[name] = value
        elif option in {"-h", "--help", "-V", "--version"}:
            show(HELP if option in {"-h", "--help"} else f"oxinp {__version__}")
        else:
            now = {name: getattr(config, name) for name in before}
            worker.install({name: value for name, value in now.items() if value != before[name]})
            start(option, rest, tools)
            return
    refuse("nothing to run")


def start(what: str, arguments: list[str], tools: dict[str, str]) -> None:
    """Run what the command line names, with these of `TOOLS`."""
    if what == "info":
        show(info.report())
    if what == "tune":
        with closing_quietly():
            status = importlib.import_module("oxinp._tune.command").main(arguments)
        sys.exit(status)
    option, value = what[:2], what[2:]
    runners = {"-c": program.run_code, "-m": program.run_module}
    if what.startswith("-") and what != "-" and option not in runners:
        refuse(f"unknown option {what}" if what.startswith("--") else f"Unknown option: {what}")
    if option in runners and not value:
        if not arguments:
            refuse(f"Argument expected for the {option} option")
        value, *arguments = arguments
    hooks.on_host.append(say_host)
    try:
        if config.backend != "auto":
            select.current()
    except BackendUnavailable as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        sys.exit(1)
    for name, given in tools.items():
        try:
            importlib.import_module(TOOLS[name]).start(given)
        except ValueError as error:
            refuse(f"{name}: {error}")
        except OSError as error:
            sys.stderr.write(f"{NAME}: {name}: can't write to {given!r}: [Errno {error.errno}] {error.strerror}\n")
            sys.exit(2)
    runners.get(option, lambda _, rest: program.run_script(what, rest))(value, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
