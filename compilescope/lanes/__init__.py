"""The lane audit: tests that are collected, and that no lane of continuous integration selects."""
