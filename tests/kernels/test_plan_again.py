"""Plans made by arithmetic for sizes that are new are those that a new planner makes."""

import random
from itertools import starmap
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.choice import MIN_TUNED_NBYTES
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.plan import FLAGS, SCRATCH, Flagged, Joined, inputs, outputs
from oxinp._kernels.problem import Instr, Operand
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.reduce.operators import extremum_at, mean
from oxinp._ptx.types import f32, f64
from tests.kernels.machine import TINY_DEVICE
from tests.kernels.operations import sum_op

NUM_PROBLEMS = 600
FAR = 1 << 31
H200 = SimpleNamespace(**{**vars(TINY_DEVICE), "num_sms": 132, "cc": (9, 0)})


def add(k, x, y):
    return k.cast(x, f64) + k.cast(y, f64)


SUM = sum_op(np.dtype(float))
MEAN = mean(f64, is_masked=False)
FIRST_LARGEST = extremum_at(f64, -np.inf, is_max=True)
INPUTS = [(f64, True), (f32, True)]
ADD = [Instr(add, f64, (0, 1))]


def draw_operands(draw, types, first_steps):
    """A size, and strides and alignments of operands of one dimension, some of which reach far."""
    size = draw.choice(
        [1, 2, 3, draw.randint(4, 70), draw.randint(70, 3000), draw.randint(3000, 400_000), draw.randint(3000, 5000)]
    )
    ways = [1, 1, 1, 1, 1, -1, -1, 2, 0, draw.choice([-3, 1000, FAR // size, -FAR // size])]
    steps = (draw.choice(first_steps), *[draw.choice(ways) for _ in types[1:]])
    return size, steps, tuple([draw.choice([t.nbytes, 256, 256, 256]) for t in types])


def operands_of(types, steps, alignments):
    return list(starmap(Operand, zip(types, [(step,) for step in steps], alignments, strict=True)))


def test_chains():
    draw = random.Random(1)
    types = [f64, f64, f32]
    known = elementwise.Elementwise(INPUTS, ADD, [(2, f64)])
    num_known = 0
    for _ in range(NUM_PROBLEMS):
        size, steps, alignments = draw_operands(draw, types, [1, 1, 1, 1, 2, -1, -1, FAR // 40])
        again = known.plan_again(size, steps, alignments)
        own = known.plan_line(size, steps, alignments, TINY_DEVICE)
        new = elementwise.Elementwise(INPUTS, ADD, [(2, f64)])
        wanted = new.plan((size,), operands_of(types, steps, alignments), TINY_DEVICE)
        assert own == wanted
        if again is not None:
            num_known += 1
            assert again == (wanted.launch.kernel, wanted.launch.grid, wanted.launch.constants)
    assert num_known > NUM_PROBLEMS // 8


@pytest.mark.parametrize("op", [SUM, FIRST_LARGEST], ids=lambda op: op.name)
def test_lines(op):
    draw = random.Random(2)
    types = [f64, f32]
    known = reduce.Reduction(INPUTS, ADD, 2, op, f64)
    num_known = 0
    for _ in range(NUM_PROBLEMS):
        size, steps, alignments = draw_operands(draw, types, [1, 1, 1, 1, 0, -1, -1, 2, FAR // 40])
        problem = (size,), (0,), operands_of(types, steps, alignments), Operand(f64, ()), TINY_DEVICE
        again = known.line_again(size, steps, alignments, TINY_DEVICE.num_sms)
        plan_again = known.plan_again(*problem)
        own = known.plan(*problem)
        wanted = reduce.Reduction(INPUTS, ADD, 2, op, f64).plan(*problem)
        assert own == wanted
        if plan_again is not None:
            assert plan_again == wanted
        if again is not None:
            num_known += 1
            assert again == (wanted.launch.kernel, wanted.launch.grid, wanted.launch.constants)
    assert num_known > NUM_PROBLEMS // 8


@pytest.mark.parametrize("op", [SUM, FIRST_LARGEST], ids=lambda op: op.name)
def test_lines_of_ever_fewer_elements(op, monkeypatch):
    """Lengths between which no kernel changes take a few integers, down to the shortest."""
    known = reduce.Reduction(INPUTS, ADD, 2, op, f64)
    asked, before = [], type(known)._line_again
    monkeypatch.setattr(type(known), "_line_again", lambda *given: asked.append(given[1]) or before(*given))
    for turn in range(2):
        asked.clear()
        for size in range(900, 0, -1):
            problem = (size,), (0,), operands_of([f64, f32], (1, 1), (256, 8)), Operand(f64, ()), TINY_DEVICE
            again = known.line_again(size, (1, 1), (256, 8), TINY_DEVICE.num_sms)
            launch = known.plan(*problem).launch
            assert again in (None, (launch.kernel, launch.grid, launch.constants))
            assert again is not None or not turn or size == 1
    assert len(asked) < 24


def test_sums_of_one_element_many_times():
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64)
    for size in (5000, 5001, 6000):
        problem = (size,), (0,), operands_of([f64, f32], (0, 0), (256, 4)), Operand(f64, ()), TINY_DEVICE
        again = known.line_again(size, (0, 0), (256, 4), TINY_DEVICE.num_sms)
        launch = known.plan(*problem).launch
        assert again in (None, (launch.kernel, launch.grid, launch.constants))
    assert again is not None


def compare_all(known, shape, steps, alignments):
    """Compare the launches by arithmetic with a new planner's; return how many they are, 0 where there are none."""
    again = known.all_again(shape, steps, alignments, H200)
    arrays = list(starmap(Operand, zip([f64, f32], steps, alignments, strict=True)))
    problem = shape, tuple(range(len(shape))), arrays, Operand(f64, ()), H200
    wanted = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=True).plan(*problem)
    assert known.plan(*problem) == wanted
    if again is None:
        return 0
    launches = [again.first, again.second] if isinstance(again, Joined) else [again]
    assert launches == [(step.kernel, step.grid, step.constants) for step in wanted.steps]
    if isinstance(again, Joined):
        assert again.scratch_nbytes == wanted.scratch_nbytes
        assert [step.arguments for step in wanted.steps] == [(*outputs(1), SCRATCH, *inputs(2)), (*outputs(1), SCRATCH)]
    else:
        assert wanted.launch.arguments == (*outputs(1), *inputs(2))
    return len(launches)


def test_all_of_lines():
    draw, found = random.Random(5), []
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=True)
    for _ in range(NUM_PROBLEMS):
        _, steps, alignments = draw_operands(draw, [f64, f32], [1, 1, 1, 1, 0, -1, 2, FAR // 40])
        size = draw.choice([1, 2, 70, 3000, 50_000, 400_000, 3_000_000, 30_000_000]) + draw.randint(0, 40)
        found.append(compare_all(known, (size,), tuple([(step,) for step in steps]), alignments))
    assert found.count(2) > NUM_PROBLEMS // 8
    assert found.count(1) > NUM_PROBLEMS // 8


def test_all_of_matrices():
    draw, found = random.Random(6), []
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=True)
    for _ in range(NUM_PROBLEMS):
        shape = draw.choice([1, 2, 40, 700, 3000, 3001]), draw.choice([1, 16, 31, 97, *[1008, 5000] * 3, 5001])
        pitch = draw.choice([*[6000] * 9, 6001, shape[1], FAR // shape[0]])
        first, *others = [(pitch, 1), (1, 0), (pitch, 0), (0, 1), (0, 0), (1, 6000), (pitch, 2), (-pitch, 1)]
        steps = draw.choice([*[first] * 12, *others]), draw.choice([*[first] * 9, *others])
        found.append(compare_all(known, shape, steps, (256, draw.choice([4, *[256] * 6]))))
    assert found.count(2) > NUM_PROBLEMS // 8
    assert found.count(1) > NUM_PROBLEMS // 16


def test_all_of_others_is_planned():
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64)
    for shape, steps in (((9, 8, 7), ((100, 10, 1),) * 2), ((9, 0), ((10, 1),) * 2), ((), ((), ()))):
        assert known.all_again(shape, steps, (256, 256), H200) is None
    assert (
        reduce.Reduction(INPUTS, ADD, 2, FIRST_LARGEST, f64).all_again((900,), ((1,), (1,)), (256,) * 2, H200) is None
    )


SHAPES = {
    0: ([1, 2, 9, 40, 700, 3000], [1, 16, 31, *[32, 48, 96, 101, 1008] * 2]),
    1: ([1, 2, 9, *[40, 200] * 2, 3000], [1, 31, 96, 101, 1008, 5000, *[40_000, 200_001] * 2]),
}


def test_sums_of_few_columns():
    types = [f64, f32]
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64)
    num_known = 0
    for steps in [((1, 0), (16, 1)), ((16, 1), (16, 1)), ((7, 0), (40, 1))]:
        for length in (3000, 2999, 2500, 5000, 2400):
            arrays = list(starmap(Operand, zip(types, steps, (256, 256), strict=True)))
            again = known.columns_again((length, 16), steps, (256, 256), 1, H200)
            wanted = known.plan((length, 16), (0,), arrays, Operand(f64, (1,)), H200)
            if again is not None:
                num_known += 1
                (launch,) = wanted.steps
                assert again == (launch.kernel, launch.grid, launch.constants)
    assert num_known >= 10


@pytest.mark.parametrize("has_flags", [False, True])
@pytest.mark.parametrize("width", [2, 16, 24, 31])
def test_sums_of_folded_rows(width, has_flags):
    steps, lengths = ((width, 1),) * 2, [150_000 // width + k for k in (*range(48), 40_000, 400_000, 2_000_000)]
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=has_flags)
    num_joined = num_alone = 0
    for written in (1, 3):
        for length in lengths:
            arrays = list(starmap(Operand, zip([f64, f32], steps, (256, 256), strict=True)))
            problem = (length, width), (0,), arrays, Operand(f64, (written,)), H200
            again = known.columns_again(*problem[:1], steps, (256, 256), written, H200)
            wanted = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=has_flags).plan(*problem)
            assert known.plan(*problem) == wanted
            launches = [(step.kernel, step.grid, step.constants) for step in wanted.steps]
            if isinstance(again, Joined):
                num_joined += 1
                assert [again.first, again.second] == launches
                assert again.scratch_nbytes == wanted.scratch_nbytes
            elif again is not None:
                num_alone += 1
                assert [again] == launches
    assert num_joined > 45
    assert num_alone > 4 or width == 2  # where nothing divides the rows


@pytest.mark.parametrize("has_flags", [False, True])
@pytest.mark.parametrize("axis", SHAPES)
def test_sums_along_an_axis(axis, has_flags):
    draw = random.Random(3)
    types = [f64, f32]
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=has_flags)
    find = known.rows_again if axis else known.columns_again
    num_known = num_joined = num_flagged = 0
    for _ in range(NUM_PROBLEMS):
        num_rows, num_columns = shape = draw.choice(SHAPES[axis][0]), draw.choice(SHAPES[axis][1])
        pitch = draw.choice([*[300_000 if axis else 1200] * 6, 1201, num_columns, FAR // num_rows])
        first, *others = [(pitch, 1), (1, 0), (1200, 0), (0, 1), (pitch, 1), (1, num_rows), (-pitch, 1)]
        steps = draw.choice(others), draw.choice([*[first] * 6, *others])
        alignments = tuple([draw.choice([t.nbytes, *[256] * 5]) for t in types])
        written = draw.choice([*[1] * 6, 7, -1])
        arrays = list(starmap(Operand, zip(types, steps, alignments, strict=True)))
        problem = shape, (axis,), arrays, Operand(f64, (written,)), H200
        again = find(shape, steps, alignments, written, H200)
        wanted = known.plan(*problem)
        assert wanted == reduce.Reduction(INPUTS, ADD, 2, SUM, f64, has_flags=has_flags).plan(*problem)
        if again is None:
            continue
        num_known += 1
        launches = [(step.kernel, step.grid, step.constants) for step in wanted.steps]
        if isinstance(again, Flagged):
            num_flagged += 1
            assert ([again.again], again.scratch_nbytes) == (launches, wanted.scratch_nbytes)
            assert wanted.launch.arguments == (*outputs(1), SCRATCH, FLAGS, *inputs(2))
        elif isinstance(again, Joined):
            num_joined += 1
            first, second, scratch_nbytes, num_taken = again
            assert num_taken == 0
            assert [first, second] == launches
            assert scratch_nbytes == wanted.scratch_nbytes
            out, scratch, *taken = wanted.steps[0].arguments
            assert (out, scratch, *taken) == (*outputs(1), SCRATCH, *inputs(2))
            assert wanted.steps[1].arguments == (*outputs(1), SCRATCH)
        else:
            assert [again] == launches
            assert wanted.launch.arguments == (*outputs(1), *inputs(2))
    assert num_known > NUM_PROBLEMS // 8
    are_flagged = has_flags and not axis
    assert (num_flagged if are_flagged else num_joined) > NUM_PROBLEMS // 30
    assert not (num_joined if are_flagged else num_flagged)


@pytest.mark.parametrize("has_flags", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_means(axis, has_flags):
    """What is divided by after all has been summed up is an input that the last launch takes."""
    draw, inputs_ = random.Random(8), [*INPUTS, (f64, False)]
    known = reduce.Reduction(inputs_, ADD, 3, MEAN, f64, has_flags=has_flags)
    find = {0: known.columns_again, 1: known.rows_again}.get(axis)
    counts = {Flagged: 0, Joined: 0, tuple: 0}
    for _ in range(NUM_PROBLEMS // 2):
        shape = draw.choice([2, 40, 700, 3000, 20_000]), draw.choice([16, 31, 97, 1008, 5000, 100_000])
        pitch = draw.choice([200_000, 200_001, shape[1]])
        steps = ((pitch, 1), draw.choice([(pitch, 1), (pitch, 1), (0, 1)]))
        arrays = list(starmap(Operand, zip([f64, f32], steps, (256, 256), strict=True)))
        output = Operand(f64, () if axis is None else (1,))
        problem = shape, (0, 1) if axis is None else (axis,), arrays, output, H200
        wanted = known.plan(*problem)
        assert wanted == reduce.Reduction(inputs_, ADD, 3, MEAN, f64, has_flags=has_flags).plan(*problem)
        if find is None:
            again = known.all_again(shape, steps, (256, 256), H200)
        else:
            again = find(shape, steps, (256, 256), 1, H200)
        if again is None:
            continue
        counts[type(again)] += 1
        launches = [(step.kernel, step.grid, step.constants) for step in wanted.steps]
        if isinstance(again, Joined):
            assert [again.first, again.second] == launches
            assert (again.scratch_nbytes, again.num_taken) == (wanted.scratch_nbytes, 1)
            assert wanted.steps[0].arguments == (*outputs(1), SCRATCH, *inputs(3))
            assert wanted.steps[1].arguments == (*outputs(1), SCRATCH, *inputs(1, 2))
        elif isinstance(again, Flagged):
            assert ([again.again], again.scratch_nbytes) == (launches, wanted.scratch_nbytes)
            assert wanted.launch.arguments == (*outputs(1), SCRATCH, FLAGS, *inputs(3))
        else:
            assert [again] == launches
            assert wanted.launch.arguments == (*outputs(1), *inputs(3))
    assert counts[Flagged if has_flags and axis == 0 else Joined] > 9
    assert sum(counts.values()) > NUM_PROBLEMS // 8


@pytest.mark.parametrize("axis", SHAPES)
def test_sums_of_matrices_without_gaps(axis):
    draw = random.Random(7)
    types = [f64, f32]
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64)
    find = known.rows_again if axis else known.columns_again
    num_known = num_joined = 0
    for _ in range(NUM_PROBLEMS):
        shape = (
            draw.choice([1, 2, 9, 40, 200, 700, 3000, 50_000]),
            draw.choice([1, 31, 96, 101, 1008, 5000, *[200_000] * 4]),
        )
        steps = ((shape[1], 1),) * 2
        alignments = tuple([draw.choice([t.nbytes, *[256] * 5]) for t in types])
        written = draw.choice([*[1] * 6, 7, -1])
        arrays = list(starmap(Operand, zip(types, steps, alignments, strict=True)))
        problem = shape, (axis,), arrays, Operand(f64, (written,)), H200
        again = find(shape, steps, alignments, written, H200)
        wanted = known.plan(*problem)
        assert wanted == reduce.Reduction(INPUTS, ADD, 2, SUM, f64).plan(*problem)
        if again is None:
            continue
        num_known += 1
        launches = [(step.kernel, step.grid, step.constants) for step in wanted.steps]
        if isinstance(again, Joined):
            num_joined += 1
            assert [again.first, again.second] == launches
            assert again.scratch_nbytes == wanted.scratch_nbytes
        else:
            assert [again] == launches
    assert num_known > NUM_PROBLEMS // 4
    assert num_joined > NUM_PROBLEMS // 30


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_sums_of_matrices(axes):
    draw = random.Random(str(axes))
    known = reduce.Reduction(INPUTS, ADD, 2, SUM, f64)
    num_known = 0
    for _ in range(NUM_PROBLEMS // 4):
        shape = (
            draw.choice([1, 2, draw.randint(3, 40), 300]),
            draw.choice([1, draw.randint(2, 60), draw.randint(60, 900)]),
        )
        dense = (shape[1] + draw.choice([0, 0, 0, 3]), 1)
        operands = [Operand(f64, dense, 256), Operand(f32, draw.choice([dense, dense, (0, 1)]), draw.choice([16, 256]))]
        problem = shape, axes, operands, Operand(f64, (1,) * (2 - len(axes))), TINY_DEVICE
        again = known.plan_again(*problem)
        wanted = reduce.Reduction(INPUTS, ADD, 2, SUM, f64).plan(*problem)
        assert known.plan(*problem) == wanted
        if again is not None:
            num_known += 1
            assert again == wanted
    assert num_known


def test_chains_along_rows():
    draw = random.Random(5)
    types = [f64, f64, f32]
    known = elementwise.Elementwise(INPUTS, ADD, [(2, f64)])
    num_known, families = 0, set()
    for _ in range(NUM_PROBLEMS):
        num_rows, num_columns = shape = (
            draw.choice([1, 2, 9, 40, 64, 300, 5000]),
            draw.choice([1, 2, 32, 64, 100, 128, 301]),
        )
        pitch = draw.choice([*[512] * 4, 513, num_columns, FAR // num_rows])
        ways = [*[(pitch, 1)] * 4, (0, 1), (512, 1), (1, 0), (512, 0), (0, 0), (1, num_rows), (-pitch, 1), (1, 1)]
        steps = draw.choice([*[(pitch, 1)] * 6, (1, num_rows), (pitch, 2)]), draw.choice(ways), draw.choice(ways)
        alignments = tuple([draw.choice([t.nbytes, *[256] * 4]) for t in types])
        operands = list(starmap(Operand, zip(types, steps, alignments, strict=True)))
        again = known.matrix_again(shape, steps, alignments, TINY_DEVICE)
        wanted = elementwise.Elementwise(INPUTS, ADD, [(2, f64)]).plan(shape, operands, TINY_DEVICE)
        assert known.plan(shape, operands, TINY_DEVICE) == wanted
        if again is not None:
            num_known += 1
            families.add(again[0].name)
            assert again == (wanted.launch.kernel, wanted.launch.grid, wanted.launch.constants)
    assert num_known > NUM_PROBLEMS // 8
    assert families == {"elementwise_tile", "elementwise_linear"}


def test_rows_that_are_the_same_in_each_row():
    known = elementwise.Elementwise([(f64, True)], [], [(0, f64)])
    seen = set()
    for shape in [(17, 700), (3, 701), (300, 900), (300, 64), (16, 1 << 20), (17, 1 << 20), (2, 1 << 20), (40, 1000)]:
        for steps in [((shape[1] + 3, 1), (0, 1)), ((shape[1] + 4, 1), (0, 1)), ((shape[1] + 4, 1), (0, 0))]:
            operands = [Operand(f64, each, 256) for each in steps]
            wanted = elementwise.Elementwise([(f64, True)], [], [(0, f64)]).plan(shape, operands, TINY_DEVICE)
            assert known.plan(shape, operands, TINY_DEVICE) == wanted
            again = known.matrix_again(shape, steps, (256, 256), TINY_DEVICE)
            if again is not None:
                seen.add(shape)
                assert again == (wanted.launch.kernel, wanted.launch.grid, wanted.launch.constants)
    assert (17, 700) in seen
    assert (300, 900) in seen
    assert (17, 1 << 20) in seen


def test_chains_of_matrices():
    draw = random.Random(4)
    known = elementwise.Elementwise(INPUTS, ADD, [(2, f64)])
    num_known = 0
    for _ in range(NUM_PROBLEMS // 4):
        shape = draw.choice([1, 2, draw.randint(3, 400)]), draw.choice([1, draw.randint(2, 60), draw.randint(60, 900)])
        pitch = shape[1] + draw.choice([0, 0, 3])
        ways = [(pitch, 1), (pitch, 1), (1, shape[0]), (0, 1), (-pitch, 1)]
        operands = [Operand(f64, (shape[1], 1), 256), Operand(f64, draw.choice(ways), 256), Operand(f32, ways[0], 256)]
        again = known.plan_known(shape, operands, TINY_DEVICE)
        wanted = elementwise.Elementwise(INPUTS, ADD, [(2, f64)]).plan(shape, operands, TINY_DEVICE)
        assert known.plan(shape, operands, TINY_DEVICE) == wanted
        if again is not None:
            num_known += 1
            assert again == (wanted.launch.kernel, wanted.launch.grid, wanted.launch.constants)
    assert num_known > NUM_PROBLEMS // 16


def test_long_lines_have_the_launch_of_their_plan():
    known = elementwise.Elementwise(INPUTS, ADD, [(2, f64)])
    few, many = 1000, MIN_TUNED_NBYTES
    moved = (1, 1, 1), (256, 256, 256)
    assert known.line_known(many, *moved, H200) is None
    launch = known.plan_line(many, *moved, H200).launch
    assert known.line_known(many, *moved, H200) == (launch.kernel, launch.grid, launch.constants)
    assert known.line_known(few, *moved, H200) is None
