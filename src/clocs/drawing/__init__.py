"""Layer 1: pictures of recordings and results; takes Recordings and arrays only. Needs the extra ``plot``."""
