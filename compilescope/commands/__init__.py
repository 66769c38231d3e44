"""The subcommands, one file each. They join the wings and hold no knowledge of their own."""
