"""Choices: what was measured is taken where it is right for the problem, and everything tried is legal."""

import random
from types import SimpleNamespace

import pytest

from oxinp._kernels.choice import decide, nominal, unrolled, unrolling
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage import tile_config
from oxinp._kernels.gemm.multistage.spec import TileConfig
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.select import Emulation
from oxinp._kernels.gemm.sm90_wgmma.plan import WgmmaConfig
from oxinp._ptx.types import c64, c128, f16, f32, f64, i64
from tests.kernels.assembled import check_assembled

SHARED_NBYTES = {(8, 0): 163 << 10, (9, 0): 227 << 10}


class Device:
    """A device that knows one answer, and what it was asked."""

    num_sms = 132

    def __init__(self, fields=None, cc=(9, 0)):
        self.cc, self.max_shared_nbytes, self.fields, self.asked = cc, SHARED_NBYTES[cc], fields, []

    def tuned(self, choice):
        self.asked.append(choice)
        return self.fields


def plan(device, type_=f64, m=512, n=384, depth=1024, is_transposed=False):
    a = Matrices(type_, (1, m) if is_transposed else (depth, 1), 256)
    acc = f32 if type_ is f16 else type_
    return select.plan((m, n), depth, a, Matrices(type_, (n, 1), 256), acc, type_, device)


def test_the_planner_asks_for_a_problem():
    device = Device()
    plan(device, is_transposed=True)
    (choice,) = device.asked
    assert choice[:4] == ("matmul/multistage", ("f64", "f64"), ("mn", "mn"), (1, 512, 384, 1024))


def test_measured_answers_are_planned():
    config = TileConfig(64, 32, 32, 16, 16, 3, 2)
    launch, second = plan(Device(config._asdict())).steps
    assert launch.grid == (512 // 64 * 384 // 32, 2, 1)
    assert launch.kernel.num_threads == 128
    assert second is not None
    assert plan(Device(config._replace(split_k=1)._asdict())).scratch_nbytes == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"tile_m": 64},  # fewer fields than there are
        {**TileConfig(64, 32, 32, 16, 16, 3)._asdict(), "rotation": 3},  # more
        TileConfig(64, 32, 48, 16, 16, 3)._asdict(),  # tiles that warps do not fill
        TileConfig(64, 32, 0, 16, 16, 3)._asdict(),
        TileConfig(64, 32, 32, 16, 16, 3, 16)._asdict(),  # more ranges than K has
        TileConfig(256, 256, 64, 32, 64, 6)._asdict(),  # more shared memory than there is
        TileConfig("64", 32, 32, 16, 16, 3)._asdict(),
    ],
    ids=str,
)
def test_answers_that_do_not_fit_are_not_chosen(fields):
    assert plan(Device(fields)).steps[0].kernel is plan(Device()).steps[0].kernel


@pytest.mark.parametrize(
    "fields",
    [
        {"is_serial_split_k": "no such way"},
        {"is_serial_split_k": 1},
        {"is_transposed": "no such way"},
        {"split_k": True},
    ],
    ids=str,
)
def test_answers_of_other_types_are_not_chosen(fields):
    def planned(device):
        a, b = Matrices(f16, (4096, 1), 256), Matrices(f16, (256, 1), 256)
        return select.plan_wgmma((256, 256), 4096, a, b, f16, device)

    config = WgmmaConfig(64, 4, 1, 2, is_serial_split_k=True)
    assert planned(Device(config._asdict())).steps[0].kernel is not planned(Device()).steps[0].kernel
    assert planned(Device({**config._asdict(), **fields})).steps[0].kernel is planned(Device()).steps[0].kernel


def test_decide_without_an_answer():
    device = Device()
    plan(device)
    choice = device.asked[0]._replace(default=lambda: 3)
    assert decide(choice, SimpleNamespace(tuned=lambda _: None)) == 3


@pytest.mark.parametrize(("type_", "side"), [(f32, 1500), (f64, 2600)], ids=str)
def test_emulation_is_a_choice(type_, side):
    matrices = Matrices(type_, (side, 1), 256)

    def steps(device):
        return select.plan_steps((side, side), side, matrices, matrices, type_, device, "auto", 4 << 30)

    def is_emulated(planned):
        return planned is not None and planned.scratch_nbytes > 0

    device = Device()
    default = is_emulated(steps(device))
    asked = [choice for choice in device.asked if choice.family == "matmul/emulation"]
    assert [choice[1:4] for choice in asked] == [((type_.name,), ("k", "mn"), (nominal(side), nominal(side), side))]
    assert list(asked[0].candidates()) == [Emulation(True), Emulation(False)]
    assert asked[0].default() == Emulation(default)
    assert is_emulated(steps(Device({"is_emulated": True})))
    assert not is_emulated(steps(Device({"is_emulated": False})))


@pytest.mark.parametrize("type_", [f64, f32, f16, c64, c128, i64], ids=str)
@pytest.mark.parametrize("cc", SHARED_NBYTES, ids=str)
def test_candidates_are_legal_and_begin_with_the_default(type_, cc):
    device = Device(cc=cc)
    default = plan(device, type_).steps[0]
    choice, *_ = device.asked  # the reduction of split-K may be asked about, too
    candidates = list(choice.candidates())
    assert all(map(choice.is_legal, candidates[::17]))
    assert len(set(candidates)) > 100
    device.fields = candidates[0]._asdict()
    assert plan(device, type_).steps[0] == default


def sample():
    """Specs of candidates, drawn anew with every change of what is legal, the same otherwise."""
    chosen = random.Random(5)
    for type_, cc in ((f64, (9, 0)), (f64, (8, 0)), (f32, (9, 0)), (c64, (9, 0)), (c128, (9, 0)), (i64, (9, 0))):
        device = Device(cc=cc)
        majors = chosen.choice(("k", "mn")), chosen.choice(("k", "mn"))
        spec = select.multistage_spec(type_, type_, type_, majors, (16, 16), (1, 1000, 1000, 1000), device)
        legal = [
            config
            for config in tile_config.all_configs()
            if tile_config.is_legal(spec.with_config(config), device) and tile_config.is_brief(spec.with_config(config))
        ]
        yield from (spec.with_config(config) for config in chosen.sample(legal, 3))


def test_candidates_assemble_without_spills():
    for spec in sample():
        check_assembled([multistage.make(spec)])


def test_a_device_without_answers_is_asked_once_of_an_unroll():
    device, spec = Device(), SimpleNamespace(unroll=4)
    choice = unrolling(spec, "reduce/rows", ("sum",), ("1 loops",), 8)
    assert unrolled(spec, choice, (3, 1000), device) is spec
    (asked,) = device.asked
    assert asked[:4] == ("reduce/rows", ("sum",), ("1 loops",), (3, 1000))
    assert [answer.unroll for answer in asked.candidates()] == [4, 1, 2, 4, 8]
    for unroll, taken in ((2, 2), (3, 4)):  # of which one is no power of two
        made = SimpleNamespace(unroll=4, replace=lambda unroll: SimpleNamespace(unroll=unroll))
        assert (
            unrolled(made, unrolling(made, "reduce/rows", (), (), 8), (2,), Device({"unroll": unroll})).unroll == taken
        )
