"""Soft bodies and fluids as particles: MLS-MPM, forwards and backwards."""
