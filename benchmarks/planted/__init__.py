"""Planted causes: workflows with one known cause each, and what its removal truly saves.

Written before the rules of issue 4, and importing nothing of them. See KINDS.md.
"""
