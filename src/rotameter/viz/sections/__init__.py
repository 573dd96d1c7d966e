"""Facts of the report's charts, one section a file: plain data, or the reason why there is none."""
