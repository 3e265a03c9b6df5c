"""How good scores are, and how sure one can be of it: AUC, calibration, intervals over patients."""
