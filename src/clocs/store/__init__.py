"""Layer 2: stores of recordings, with ingest, verification, frames and splits."""
