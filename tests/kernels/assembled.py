"""Whether kernels assemble as they are meant to: without spills or repairs by ptxas, within the limits of devices."""

import math
import re
from types import MappingProxyType

from tests.ptx.assembler import assemble

ENTRY = re.compile(
    r"Function properties for (\w+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)
SHARED_NBYTES = 227 * 1024  # of a block, on the device that catalogs plan for
REGISTERS = 65536


NONE = MappingProxyType({})


def check_assembled(kernels, spills=NONE):
    """Assemble kernels of one target, with distinct names, as one module; `spills` are bytes allowed by name."""
    said = assemble(kernels)
    assert "C75" not in said, "ptxas serialises wgmma or ignores setmaxnreg"
    found = {name: tuple(map(int, numbers)) for name, *numbers in ENTRY.findall(said)}
    assert found.keys() == {kernel.name for kernel in kernels}
    spilling = {name: most for name, (*nbytes, _) in found.items() if (most := max(nbytes)) > spills.get(name, 0)}
    assert spilling == {}, spilling
    for kernel in kernels:
        *_, used = found[kernel.name]
        assert kernel.static_shared_nbytes + kernel.shared_nbytes <= SHARED_NBYTES, kernel.name
        if "setmaxnreg" in kernel.ptx:  # the warpgroups share what the block is launched with
            assert used == REGISTERS // math.prod(kernel.block) // 8 * 8, (kernel.name, used)
