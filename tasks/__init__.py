"""Search problems that ship with the toolkit, one folder each."""
