"""Reachability maps, and inverse kinematics."""
