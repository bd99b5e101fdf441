"""Where a NaN or inf began."""
