"""Sources of ECG files: folders on disk, zip archives, and folders in buckets."""
