"""gradwalk.compile: a function, or a whole training step, as one native function.

function.py   `compile`: which program a call needs, and what happens around it
tracing/      the function, run once on abstract arrays, becomes a Program
graph.py      Program: calls of ops on terms
passes/       Program -> Program: simpler, with less to do
plan/         which calls become one kernel, and where values lie in memory
llvm/         kernels as LLVM text, and what runs them
reference.py  the NumPy backend, which the others must agree with
"""
