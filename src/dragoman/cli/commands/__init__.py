"""One thin file per command; each has a click command called `command`. `MODULES` in dragoman.cli has their places."""
