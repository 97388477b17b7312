"""Files of AMD's profilers."""
