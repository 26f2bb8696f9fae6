"""Where units start: the functions, the aims of a fit, the stored starts."""
