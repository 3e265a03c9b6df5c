"""Lead numbers of SCP-ECG (ISO 11073-91064), which DICOM, the MDC vocabulary and MFER also use."""

from __future__ import annotations

from typing import Final

LEADS: Final[dict[int, str]] = {
    **{1: "I", 2: "II", 61: "III", 62: "aVR", 63: "aVL", 64: "aVF", 65: "-aVR"},
    **{number: f"V{number - 2}" for number in range(3, 10)},
    **{number: f"V{number - 8}R" for number in range(10, 16)},
    **{66: "V8", 67: "V9", 68: "V8R", 69: "V9R"},
    **{16: "X", 17: "Y", 18: "Z", 19: "CC5", 20: "CM5", 21: "LA", 22: "RA", 23: "LL"},
    **{24: "fI", 25: "fE", 26: "fC", 27: "fA", 28: "fM", 29: "fF", 30: "fH"},
    **{70: "D", 71: "A", 72: "J", 73: "Defib", 74: "Extern", 75: "A1", 76: "A2", 77: "A3", 78: "A4"},
    **{
        86: "C",
        87: "V",
        88: "VR",
        89: "VL",
        90: "VF",
        91: "MCL",
        122: "CH5",
        125: "CR5",
        131: "ES",
        132: "AS",
        133: "AI",
    },
    **{number: f"MCL{number - 91}" for number in range(92, 98)},
}
"""Lead names by number."""

CALCULATED_LEADS: Final[dict[int, str]] = {
    **{number: LEADS[number - 30] for number in range(31, 61)},
    **{number: LEADS[number - 13] for number in range(79, 86)},
    **{number: LEADS[number - 50] for number in range(111, 115)},
}
"""Names of leads that a device calculated from others, by the separate numbers that SCP-ECG and MDC define for them."""
