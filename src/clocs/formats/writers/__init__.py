"""Writers: each module encodes a ``Recording`` in one format."""
