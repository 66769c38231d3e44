"""The subcommands, one file each. They only connect the other packages."""
