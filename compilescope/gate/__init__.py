"""Holds a run to limits: budgets and baselines. Pure functions of recordings; no torch, no pytest."""
