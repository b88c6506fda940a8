"""Models of work on many machines, from figures that were measured on one: serving, translating files, training."""
