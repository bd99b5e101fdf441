"""The checker of engines: runs a learner's Value class and names its mistakes."""
