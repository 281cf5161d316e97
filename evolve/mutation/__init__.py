"""What the scripted mutator knows of programs, and its operators; :mod:`evolve.mutate` uses it."""
