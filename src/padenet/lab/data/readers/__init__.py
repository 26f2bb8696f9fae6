"""From files to arrays and records: a module a format."""
