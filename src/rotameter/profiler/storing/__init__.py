"""Storage: what a store gives to an access, what a workflow's stages would cost on it."""
