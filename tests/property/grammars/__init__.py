"""Grammars of foreign formats: one module a format, with ``IMPORTER`` and ``files()``."""
