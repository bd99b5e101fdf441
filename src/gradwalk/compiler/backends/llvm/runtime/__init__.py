"""The runtime: the thread pool, the tape, object code in memory and on disk."""
