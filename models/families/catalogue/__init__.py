"""The families, one file each."""
