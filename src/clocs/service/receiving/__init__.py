"""Reception of ECGs from a watched folder and by DICOM, into a store with pseudonyms."""
