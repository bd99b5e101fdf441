"""The engine: the backward walk and everything that is built on it."""
