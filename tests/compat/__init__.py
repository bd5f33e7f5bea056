"""Other people's clients, unmodified, against a real broker process."""
