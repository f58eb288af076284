"""Entry points that regenerate the thesis' tables and figures; each module here is one command."""
