"""Finding out what made a bad step: model or compiler, half precision or not."""
