"""The command line, `pann`."""
