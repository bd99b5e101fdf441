"""The page's engine, for the tests that compare lessons in the page and in Python."""

from tests.studio.conftest import engine as engine

# Learners' files: only the checker runs them, in a separate process.
collect_ignore = ["engines"]
