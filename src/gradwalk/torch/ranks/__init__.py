"""watch in a job of several processes: what ranks tell one another, and reruns on one rank."""
