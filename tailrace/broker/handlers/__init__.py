"""One file an API: what Tailrace answers to each request."""
