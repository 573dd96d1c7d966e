"""Comparing runs: what changed between two sides, and whether what was predicted came true."""
