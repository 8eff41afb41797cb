"""What a window is told: rows that enter and leave it, in the order of time. Serves engine/windows."""
