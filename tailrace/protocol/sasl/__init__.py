"""SASL mechanisms as pure state machines: a challenge in, a response out. What carries them is left to others."""
