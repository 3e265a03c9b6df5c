"""Layer 1: figures of recordings and results, drawn from recordings and arrays. It needs the extra ``plot``."""
