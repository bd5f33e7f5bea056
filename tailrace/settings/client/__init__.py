"""What clients can be told: one table for each kind of client, and what all of them share."""
