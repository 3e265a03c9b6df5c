"""Layer 3: one pre-training method each: its views, its loss, its options."""

from clocs.methods.method import METHODS, Method, changed_options, parse_method

__all__ = ["METHODS", "Method", "changed_options", "parse_method"]
