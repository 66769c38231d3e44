"""The report as markdown: its sections, and the page that keeps below the size that GitHub takes."""
