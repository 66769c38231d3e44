"""The report as Markdown: its sections, and the page that stays below GitHub's size limit."""
