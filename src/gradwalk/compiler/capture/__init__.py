"""What a traced function reads besides its arguments, and where each call finds it again."""
