"""Convert models of other toolkits; weights, tokens and translations stay the same."""
