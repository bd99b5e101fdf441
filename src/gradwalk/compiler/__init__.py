"""gradwalk.compile: a function, or a whole training step, as one native function.

function.py   `compile`, and the object it returns
pipeline.py   the order of the stages: trace -> passes -> plan -> backend -> call
ir/           Program: calls of ops on terms
tracing/      runs a function once on abstract arrays, which gives a Program
capture/      what the function reads besides its arguments, and where a call finds it
passes/       Program -> Program: simpler, with less to do
plan/         which calls become one kernel, and where arrays are in memory
backends/     NumPy, the reference, and LLVM
call/         the generated function that a call runs
introspect/   explain(), source(), graph
scalars/      recorded graphs of Values as native code
"""
