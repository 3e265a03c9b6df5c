"""Reader of WFDB records, as PhysioNet publishes them: a text header and signal files.

Records are read from bytes, not through the ``wfdb`` package, which needs files on disk, trusts the sizes in a header,
and spends most of its time on the header. The tests compare every value with it.
"""
