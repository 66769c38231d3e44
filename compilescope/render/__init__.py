"""One file per format; nothing here imports torch."""
