"""Layer 0: types and services that every other layer uses. It imports no other part of clocs."""
