"""WFDB records, as PhysioNet publishes them: a text header and signal files beside it.

Read here from bytes, not through the ``wfdb`` package: that one needs files on disk, trusts a header's
sizes, and spends most of its time on the header. The tests hold every value against it.
"""
