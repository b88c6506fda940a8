"""From tables to windows: files, time stamps, series, and batches of windows."""
