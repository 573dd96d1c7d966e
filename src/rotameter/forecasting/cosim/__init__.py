"""The co-simulator: what would happen to tasks and jobs if a decision were taken.

No clock, no global random state, no engine: it takes values and gives values. Batch systems keep
whole seconds, as their logs do; queues of tasks keep fractions.
"""
