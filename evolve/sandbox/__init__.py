"""Where candidates run: warm workers, one short-lived process per program, plain data both ways."""

from evolve.sandbox.check import quick_check
from evolve.sandbox.outcome import Reply, Status, Usage
from evolve.sandbox.pool import Pool
from evolve.sandbox.session import Session
from evolve.sandbox.tiers import MEANING

__all__ = ["MEANING", "Pool", "Reply", "Session", "Status", "Usage", "quick_check"]
