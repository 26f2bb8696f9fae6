"""What a unit's state says of it, and how models with units come back from files."""
