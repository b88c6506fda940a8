"""The subcommands of `dragoman inspect`, one file each."""
