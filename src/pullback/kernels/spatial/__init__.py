"""Numbers, vectors, rotations, and the algebra of motions and forces."""
