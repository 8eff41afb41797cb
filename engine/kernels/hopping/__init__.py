"""Rows of one hop: panes, and whole answers joined and counted. Serves engine/panes and engine/hopping."""
