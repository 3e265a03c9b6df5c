"""Faults in common evaluation protocols, measured one by one, and the copied values of CLOCS."""
