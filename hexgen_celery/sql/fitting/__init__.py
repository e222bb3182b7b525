"""Fitting a sound statement to its question: stored spellings, true ratios, columns as named."""
