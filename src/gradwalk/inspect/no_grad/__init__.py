"""Why a gradient is None or zero."""
