"""Layer 2: shards, manifest, ingest, verify, splits and frames: recordings that every stage trusts."""
