"""Models of other toolkits, converted with the same weights, tokens and translations."""
