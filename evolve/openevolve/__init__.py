"""Pairs of an initial program and an evaluator, as OpenEvolve takes them, run unchanged.

Such an evaluator opens the program that it judges, so both run in the sandbox together and the
figures are the program's own word: a run on a pair is marked "self-judged". Time is kept outside.
"""

from evolve.openevolve.pair import pair_task
from evolve.openevolve.prepare import discard, prepare
from evolve.openevolve.settings import PairSettings, read_settings

__all__ = ["PairSettings", "discard", "pair_task", "prepare", "read_settings"]
