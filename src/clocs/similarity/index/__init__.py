"""Patient indexes: storage, changes and nearest-neighbour search."""
