"""``python -m rotameter.cli``."""

from rotameter.cli import main

main()
