"""Barriers, fences and special registers."""

from __future__ import annotations

from typing import Any

from oxinp._ptx import isa
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row, Wait
from oxinp._ptx.types import u32
from oxinp._ptx.value import Language

# %-registers of a thread, by name; the emulator provides a value for each.
SPECIAL_REGISTERS = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "laneid",
)
CLUSTER_REGISTERS = (
    *(f"{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    "cluster_ctarank",
    "cluster_nctarank",
)


GRID_WAIT = "griddepcontrol.wait"
"""In the text of every kernel that may begin before the one before it has ended."""


def _special(frame: Any, op: Op) -> Any:
    return frame.special(op.detail)


def special_op(register: str) -> Op:
    """Instruction form that reads one special register."""
    in_cluster = register in CLUSTER_REGISTERS
    if not in_cluster and register not in SPECIAL_REGISTERS:
        raise ValueError(f"no special register {register!r}")
    return Op(
        "special",
        f"mov.u32 {{0}}, %{register};",
        (u32,),
        (),
        _special,
        EFFECT,
        90 if in_cluster else 80,
        (7, 8) if in_cluster else (7, 0),
        detail=register,
    )


def _arrive_all(frame: Any, _op: Op, number: Any) -> Any:
    return frame.arrive_barrier(number, None)


def _arrive_some(frame: Any, _op: Op, number: Any, count: Any) -> Any:
    return frame.arrive_barrier(number, count)


def _passed(frame: Any, _op: Op, token: Any, number: Any, *_count: Any) -> Any:
    return frame.barrier_passed(token, number)


def _arrive_only(frame: Any, _op: Op, number: Any, count: Any) -> None:
    frame.arrive_barrier(number, count)


def _warp_sync(frame: Any, _op: Op, members: Any) -> None:
    frame.check_members(members)
    frame.synchronize_warps()


def _fence(frame: Any, _op: Op) -> None:
    frame.fence()


def _rows() -> list[Row]:
    return [
        Row("barrier", "barrier.sync.aligned", "<- u32", ((),), Wait(_arrive_all, _passed), kind=WAIT),
        Row("barrier_count", "barrier.sync.aligned", "<- u32 u32", ((),), Wait(_arrive_some, _passed), kind=WAIT),
        Row("barrier_arrive", "barrier.arrive.aligned", "<- u32 u32", ((),), _arrive_only, kind=EFFECT),
        Row("grid_wait", GRID_WAIT, "<-", ((),), _fence, sm=90, ptx=(7, 8), kind=EFFECT),
        Row("grid_release", "griddepcontrol.launch_dependents", "<-", ((),), _fence, sm=90, ptx=(7, 8), kind=EFFECT),
        Row("warp_sync", "bar.warp.sync", "<- u32", ((),), _warp_sync, kind=EFFECT, collective=32),
        *(
            Row(
                f"fence_{order}_{scope}",
                f"fence.{order}.{scope}",
                "<-",
                ((),),
                _fence,
                kind=EFFECT,
                sm=90 if scope == "cluster" else 80,
                ptx=(7, 8) if scope == "cluster" else (7, 0),
            )
            for order in ("acq_rel", "sc")
            for scope in ("cta", "cluster", "gpu", "sys")
        ),
    ]


isa.register(_rows())


def follow(k: Language) -> None:
    """Programmatic dependent launch: wait for the previous kernel, and allow the next one to begin.

    Kernels call it before their first access to global memory; what comes before overlaps the end of the previous
    kernel. A thread that waits for another one that has called it need not call it.
    """
    k.emit("grid_wait", types=())
    k.emit("grid_release", types=())
