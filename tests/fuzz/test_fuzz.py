"""Random programs give what NumPy gives, with everything on the device, with the default placement, and on the host.

Bulk runs are `python -m tests.fuzz`; what hypothesis adds is the shrinking of choices that deletion cannot do.
"""

import pytest
from hypothesis import HealthCheck, given, settings, strategies

import oxinp
from tests.fuzz.draw import HypothesisDraw
from tests.fuzz.generate import generate, generate_seeded, profiles_for
from tests.fuzz.twin import find_difference, raising_statements

SEEDED_PROGRAMS = 700
HYPOTHESIS_PROGRAMS = 50


def _assert_no_difference(program, config):
    difference = find_difference(program, oxinp)
    if difference is not None:
        chosen = {"offload_threshold": config.offload_threshold, "backend": config.backend}
        pytest.fail(f"{difference.message}\n\n{program.script(chosen, raising_statements(program))}", pytrace=False)


@pytest.mark.parametrize("seed", [1, 2])
def test_seeded_programs(config, offload_threshold, stats, seed):
    for index in range(SEEDED_PROGRAMS // 2):
        _assert_no_difference(generate_seeded(seed, index, offload_threshold), config)
    # Below infinity the programs must have reached the device, and there must be one for them to reach.
    assert (stats().launches > 0) == (offload_threshold != float("inf"))


def test_drawn_programs(config, offload_threshold):
    @settings(
        max_examples=HYPOTHESIS_PROGRAMS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.data())
    def run(data):
        _assert_no_difference(
            generate(HypothesisDraw(data), "drawn by hypothesis", profiles_for(offload_threshold)), config
        )

    run()
