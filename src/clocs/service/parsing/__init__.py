"""Uploads are parsed in processes of their own, with limits on time, memory and what they may read."""
