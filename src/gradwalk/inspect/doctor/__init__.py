"""doctor: run the right tools on a training program, and say what is most likely wrong."""
