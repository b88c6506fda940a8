"""Models of other toolkits as models of ours: the same weights, pieces and translations."""
