"""The implementation of the pytest plugin; loaded only if a test needs it."""
