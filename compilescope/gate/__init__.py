"""Checks a run against limits: budgets and baselines. Pure functions of recordings; no torch, no pytest."""
