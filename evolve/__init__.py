"""Evolutionary program search whose policy learns from its own archive."""
