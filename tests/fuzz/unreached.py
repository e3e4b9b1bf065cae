"""Why problems leave branches of planners untaken: each reason with the places that it holds for.

A place reads as `python -m tests.fuzz.planners --coverage FILE` prints it, without its line. True and false are those
of the condition before the bar: of ``not size``, that is `size`.
"""

REASONS: dict[str, tuple[str, ...]] = {
    "planners have divided what is larger, and refused what has no elements, before they ask; other callers are told": (
        "blas3/trsm.py plan: never false: 1 <= order <= length(spec.type) | if not 1 <= order <= length(spec.type):",
        "blas3/trsm_dmma.py plan: never false: 1 <= order <= LENGTH | if not 1 <= order <= LENGTH:",
        (
            "sort/bitonic.py spec_of: never false: bits <= MAX_BITS | return BitonicSpec(type_, bits) if "
            "type_.nbytes == u32.nbytes and bits <= MAX_BITS else None"
        ),
    ),
    "operations without elements are done before anybody plans them; loops of kernels are none then": (
        "nest.py collapse: never true: 0 in shape | if 0 in shape:",
        "problem.py touched_nbytes: never false: n | if step or not n:",
    ),
    "every device that there are kernels for has more shared memory; those of tests have less": (
        (
            "sort/plan.py _specs_in_block: never true: block.make(spec).shared_nbytes > device.max_shared_nbytes "
            "| if block.make(spec).shared_nbytes > device.max_shared_nbytes:"
        ),
    ),
    "kernels that are made are never None, as those are that are only asked for": (
        (
            "reduce/plan.py Reduction.plan: never false: self._planned(shape, axes, arrays, output, device, "
            "Planner.kernel) or Plan(()) | return self._planned(shape, axes, arrays, output, device, "
            "Planner.kernel) or Plan(())"
        ),
    ),
    "parameters of operators are scalars, which a type checker is not told": (
        (
            "reduce/passes.py Passes.joining: never false: spec | parameters = [(spec.type, False) for spec in "
            "self.inputs[len(self.inputs) - op.num_parameters :] if spec]"
        ),
    ),
    "a way that tests and timings choose, beside the one that is used": (
        "scan/chained.py ScanChainedSpec.is_copied: never false: COPIES | if not COPIES or self.chain.instrs:",
        (
            "index/buckets.py group: never true: items or spec.items | spec = spec.replace(items=items or "
            "spec.items, wraps=wraps)"
        ),
        (
            "index/sums.py add: never true: piece or max(MIN_PIECE, 2 * -(-count // max(-(-extent // size), "
            "NUM_PARTS))) | piece = piece or max(MIN_PIECE, 2 * -(-count // max(-(-extent // size), NUM_PARTS)))"
        ),
        (
            "index/windows.py update: never true: piece or max(MIN_PIECE, -(-count // (NUM_PIECES * WARP)) * "
            "WARP) | piece = piece or max(MIN_PIECE, -(-count // (NUM_PIECES * WARP)) * WARP)"
        ),
        (
            "random/segments.py tiled: never true: items or items_of(generator, name, size, device.num_sms) | "
            "generator, name, is_shifted, items or items_of(generator, name, size, device.num_sms), capacity, "
            "form"
        ),
        (
            "random/shuffle.py plan: never true: tail_bits or TAIL_BITS | scratch, tail_bits = Scratch(), "
            "tail_bits or TAIL_BITS"
        ),
        (
            "random/shuffle.py plan: never true: range_bits or RANGE_BITS | range_bits = max(range_bits or "
            "RANGE_BITS, num_steps.bit_length() - MOST_RANGE_BITS)"
        ),
        (
            "index/grouped_take.py take: never true: tiles_each or TILES_EACH | parts = -(-num_tiles // "
            "(tiles_each or TILES_EACH))"
        ),
    ),
    "what makes tables runs when its module is imported, before anybody looks": (
        "random/variates.py _variates: never entered",
    ),
    "sums of fewer updates than pay are those of tests": (
        "index/sums.py add: never false: most | parts = (WHOLE, CUT) if most else (WHOLE,)",
    ),
}
