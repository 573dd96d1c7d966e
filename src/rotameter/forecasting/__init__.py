"""What will come, and what would happen: change points, arrivals, simulated decisions."""
