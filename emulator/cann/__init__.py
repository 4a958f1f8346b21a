"""A CANN-like root: headers and libraries with which C, C++ and PyTorch clients run on the emulated NPU.

The runtime is C (``source/``); the numerics are the project's own kernels, compiled ahead of time
(:mod:`emulator.cann.loops`); what Python knows about chips, codes and texts becomes a header
(:mod:`emulator.cann.tables`). :func:`emulator.cann.root.lay_out` puts it all together.
"""
