"""What an op is: its definition and checks, its plan, symbols, dtypes, operators."""
