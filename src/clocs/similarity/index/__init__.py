"""Patient indexes: storage, changes and nearest-neighbor search."""
