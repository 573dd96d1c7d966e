"""Policies of batch systems, one a file; registered under ``rotameter.policies``."""
