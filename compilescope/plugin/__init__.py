"""What stands behind the pytest plugin; loaded only where a test asks for it."""
