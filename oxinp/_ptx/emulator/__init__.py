"""The inside of the emulator, which `oxinp._ptx.emulate` is the door to.

A `Program` is a kernel decoded for execution, a `Machine` one launch, a `Frame` its lanes in lockstep (`Lanes`) with
their accesses to memory. A `Space` is memory with shadow state, whose `Tracker` detects races.
"""
