"""Pure functions over a recording; nothing here imports torch."""
