"""The diffusion transformers that compilescope is exercised on: real classes, seeded random weights."""
