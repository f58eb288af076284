"""Pages of HTML that need no server: their frame, style and charts."""
