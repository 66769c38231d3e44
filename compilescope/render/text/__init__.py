"""The report for a terminal: its sections, and the page that they must fit."""
