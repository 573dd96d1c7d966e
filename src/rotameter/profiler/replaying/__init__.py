"""The parts of the replay engine: a trace's model, the event loop, edits, and what they save."""
