"""Transactions: one state machine per transactional id, the coordinator that performs its effects, and the markers."""
