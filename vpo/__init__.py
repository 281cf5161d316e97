"""Vector Policy Optimization: learning from reward vectors, usable without the search."""
