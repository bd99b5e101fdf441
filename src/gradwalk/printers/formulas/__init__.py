"""Formulas as text, LaTeX, MathML and JavaScript."""
