"""From models to pictures and pages."""
