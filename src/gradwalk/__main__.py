"""`python -m gradwalk` is the `gradwalk` command."""

from gradwalk.cli import main

main()
