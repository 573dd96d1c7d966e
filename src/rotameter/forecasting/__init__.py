"""What will come, and what would happen."""
