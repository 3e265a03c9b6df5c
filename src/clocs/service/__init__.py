"""Layer 7: ``clocs serve``: an API and a viewer for one machine (extra ``serve``)."""
