"""The tables and figures of the thesis, one module each; `tables` and `figures` list them."""
