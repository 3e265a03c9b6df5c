"""The report: our results beside the paper's, made from the results folder alone."""
