"""Running a failed step again, recorded, from the state it began with."""
