"""Convert models to other toolkits, and verify the result in their engines."""
