"""MySQL as a target."""
