"""SCP-ECG (EN 1064, ISO 11073-91064): sections behind pointers, samples as they are or Huffman-coded differences."""
