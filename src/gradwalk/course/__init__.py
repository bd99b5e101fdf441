"""The course: lessons, questions, and the checker of engines."""
