"""Whether kernels keep their registers, for every architecture that is claimed."""

import re

from tests.ptx.assembler import assemble

TARGETS = {"sm_80": "7.0", "sm_90": "7.8"}  # with the PTX versions that know them


def check_assembled(kernels, targets=TARGETS):
    """Assemble kernels; none may have a stack frame or spill."""
    for target, version in targets.items():
        renamed = [_renamed(kernel, i, target, version) for i, kernel in enumerate(kernels)]
        log = assemble(renamed)
        spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
        assert spills == [("0", "0", "0")] * len(kernels)


def _renamed(kernel, number, target, version):
    name = f"{kernel.name}_{number}"
    text = kernel.ptx.replace(f" {kernel.name}(", f" {name}(", 1)
    text = text.replace(".version 7.0\n", f".version {version}\n", 1).replace(".target sm_80", f".target {target}", 1)
    return kernel.replace(name=name, target=target, ptx=text)
