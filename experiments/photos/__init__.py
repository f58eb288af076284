"""Photo search, and its page for users."""
