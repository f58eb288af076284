"""Tables and figures of the thesis, a module each; listed in `tables` and `figures`."""
