"""Formulas as text, LaTeX and MathML."""
