"""Pictures and pages of what a model does."""
