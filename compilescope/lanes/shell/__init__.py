"""Reads a shell script as far as it takes to find its calls of pytest. Nothing of it is executed."""
