"""For a class: grading services, similarity of submissions, and codes of completion."""
