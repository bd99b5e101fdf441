"""Watch under several processes: what ranks tell one another, and a step rerun on one rank alone."""
