"""Tools that write files of the repository from its code."""
