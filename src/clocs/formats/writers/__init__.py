"""Writers, one format each: ``Recording`` to bytes."""
