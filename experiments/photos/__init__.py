"""Search in photos, and the page for people with photos."""
