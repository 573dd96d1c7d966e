"""``python -m rotameter``."""

from rotameter.cli import main

main()
