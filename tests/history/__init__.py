"""What clients saw, written down, and what may not be in it."""
