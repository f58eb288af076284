"""Photos: embedded, indexed, compared, and shown in tables and on pages."""
