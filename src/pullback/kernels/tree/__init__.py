"""A robot as a tree of bodies: its structs, the sweeps over it, forces, and the textbook algorithms."""
