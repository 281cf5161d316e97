"""The errors that a user meets, each one line that says what, where and what is allowed.

A failed *candidate* is data and never appears here; these are failures of the frame around it.
"""

from __future__ import annotations


class EvolveError(Exception):
    """Base of every error that the command line prints as one line."""

    exit_code = 2


class TaskError(EvolveError):
    """A task folder, its evaluator or its starting program is unusable."""


class ConfigError(EvolveError):
    """A configuration file or an option holds a value that is not allowed."""


class StoreError(EvolveError):
    """A run folder or its database cannot be used."""


class SandboxError(EvolveError):
    """The sandbox cannot start, or cannot give the isolation that was asked for."""

    exit_code = 3


class PolicyError(EvolveError):
    """A policy cannot be loaded, or its engine does not hold the weights it should."""
