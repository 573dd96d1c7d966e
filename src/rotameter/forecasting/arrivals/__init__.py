"""Forecasters of arrival counts: how many tasks or requests come in each of the next bins.

Each is a :class:`rotameter.protocols.Forecaster`, registered under ``rotameter.forecasters``, one
algorithm a file. ``default`` is what to use; the others are its parts and the yardsticks that it is
measured against.
"""
