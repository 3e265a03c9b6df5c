"""The report: what was found, beside what the paper says, made from the results folder alone."""
