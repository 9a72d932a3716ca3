"""Losses: their values, slopes and duals."""
