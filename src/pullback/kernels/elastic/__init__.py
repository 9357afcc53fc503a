"""Elastic solids and cloth on meshes: implicit steps, forwards and backwards."""
