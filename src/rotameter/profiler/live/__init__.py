"""What runs inside the user's process, worker or scheduler: standard library and msgpack only."""
