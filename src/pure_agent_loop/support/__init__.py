"""Small mechanisms that know no agents."""
