"""Patients that can be searched: what is held, how it changes, and how it is asked."""
