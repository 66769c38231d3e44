"""Reads lanes from CI files. Nothing in them is executed."""
