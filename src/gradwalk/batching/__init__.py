"""vmap: a function of one sample, applied to a batch. One more reading of the op table."""
