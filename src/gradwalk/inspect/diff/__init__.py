"""diff: two computations that should be equal, and the first operation where they are not."""
