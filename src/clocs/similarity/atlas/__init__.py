"""Where patients lie, and the groups they form."""
