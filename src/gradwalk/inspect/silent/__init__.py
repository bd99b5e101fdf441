"""Faults that give no NaN: found by replaying a recorded step with other numbers."""
