"""Commands that fetch what an importer then reads, one file a system."""
