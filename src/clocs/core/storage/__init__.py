"""Files and folders on disk and in buckets: locations, durable writes, locks, and copies of objects."""
