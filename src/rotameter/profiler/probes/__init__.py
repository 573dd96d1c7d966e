"""What is measured around a task, one probe a file."""
