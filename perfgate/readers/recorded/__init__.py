"""What perfgate itself writes: results and recordings."""
