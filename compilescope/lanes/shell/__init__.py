"""Reads a shell script as far as needed to find its calls of pytest. Nothing in it is executed."""
