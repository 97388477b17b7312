"""Two versions of a program measured together: their processes, the turns they take, and pairs within one process."""
