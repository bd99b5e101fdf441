"""What `make page` needs from Python: the op table, lessons and presets, for the page in web/."""
