"""Layer 1: processing of samples: leads, resampling, frames, quality, beats and simulation."""
