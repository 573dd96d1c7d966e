"""Writers of what other tools read, one file a format; plug-ins ``rotameter.exporters``."""
