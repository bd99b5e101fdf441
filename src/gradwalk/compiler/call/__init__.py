"""The call of one program, generated as Python text.

A small training step takes a few microseconds; loops over lists of guards, locations and results
would take three times that. So they are unrolled once per program, as `ops/core/plan.py` does for
one op: everything that the text names is in its globals, and `Specialization.text` shows it. For
w *= x, with x given and w captured, it begins

    def call(args, keywords, here, look=False):
        try:
            x0, = args
            if (
                (keywords)
                or (here.grad_enabled is not True)
                or (dtypes._default is not fixed0 and dtypes._default != fixed0)
                ...
            ):
                return MISS
            moved = (
                (tensor0._array is not array0)
            )
        except NOT_THERE:
            return MISS
        if moved and not find_again((x0,)):
            return MISS
        ...

It returns MISS, with nothing done, if a guard does not hold. `writer.py` has its parts and their
order, `guard_code.py` writes the first of them and `run.py` the others.
"""
