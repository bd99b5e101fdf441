"""Planning: fusion, loops, buffers, schedule. Knows no backend."""
