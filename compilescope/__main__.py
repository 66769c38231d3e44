"""``python -m compilescope``."""

from compilescope.cli import main

main(prog_name="compilescope")
