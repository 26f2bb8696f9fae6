"""From files to arrays: a module a format."""
