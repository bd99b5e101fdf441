"""Arrays whose memory is modelled: a write makes a new value, and views see it."""
