"""Tools of this repository; not installed."""
