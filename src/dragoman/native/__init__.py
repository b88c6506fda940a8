"""Inner loops in C, compiled on the user's machine on first use: one folder of sources per library."""

from dragoman.native.build import library as library
from dragoman.native.build import why_not as why_not
