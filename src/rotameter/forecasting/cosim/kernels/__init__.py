"""Schedules of one resource in one pool, at speed: each gives what its policy gives, exactly."""
