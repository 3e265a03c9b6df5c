"""Tests of the measurements of protocol faults."""
