"""The page's engine, for the tests that compare lessons in the page and in Python."""

from tests.studio.conftest import engine as engine

# Learners' files: the checker runs them, in a process of its own, and nothing else does.
collect_ignore = ["engines"]
