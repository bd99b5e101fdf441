"""The programs are run by the doctor, not imported as tests."""

collect_ignore_glob = ["programs/*"]
