"""Why a gradient is what it is: contributions, paths, symbols, small changes."""
