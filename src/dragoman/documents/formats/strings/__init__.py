"""String files of programs: JSON, YAML and Java properties."""
