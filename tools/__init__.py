"""Scripts that generate files of the repository from its code."""
