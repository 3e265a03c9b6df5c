"""Reader of SCP-ECG (EN 1064, ISO 11073-91064)."""
