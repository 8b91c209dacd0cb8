"""The command line: one file per verb, thin over `anabranch.Job`. `main.py` is the entry point, `options.py` what verbs
share.

Nothing heavy is imported before a verb runs: `--help` answers at once. What does not live here: anything that a
notebook could not do with `anabranch.Job`.
"""
