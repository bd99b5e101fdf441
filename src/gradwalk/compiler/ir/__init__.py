"""Program, and the ops that only the compiler uses."""
