"""Layer 7: ``clocs serve``, an HTTP API and a viewer (extra ``serve``)."""
