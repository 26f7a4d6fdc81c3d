"""Sizes that are not known yet: polynomials of symbols, what is known of them, and how they are written and solved."""
