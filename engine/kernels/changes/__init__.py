"""Bags, groups and aggregates of rows that come and go. Serves engine/changes.

A line belongs here if it changes what is remembered of a bag by one row.
Read first: `bag.py`, rows that can be taken out again; `groups.py`, rows to groups; `publish.py`, what
groups say.
"""
