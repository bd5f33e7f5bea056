"""What the coordinators write into their topics, and what consumers tell each other through them."""
