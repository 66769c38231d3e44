"""One file a format; nothing here imports torch."""
