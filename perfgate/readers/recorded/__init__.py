"""Files that perfgate itself writes: results and recordings."""
