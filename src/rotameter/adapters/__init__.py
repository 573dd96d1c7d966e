"""Adapters: how rotameter meets engines and formats; one folder or file each."""
