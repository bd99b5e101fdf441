"""Quizzes: the question bank, and drawing from it."""
