"""Readers of what other tools leave behind, one file a format.

Each is a plug-in (entry points ``rotameter.importers``). The module ``reading`` finds the one that
fits, opens the input within bounds and puts a trace together.
"""
