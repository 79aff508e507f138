"""Transcripts: private reports that were really collected, and the intervals that follow from them."""
