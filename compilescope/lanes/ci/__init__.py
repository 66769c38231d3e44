"""Reads the lanes from files of continuous integration. Nothing of them is executed."""
