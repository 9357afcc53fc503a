"""The step with a contact model, and its adjoint: compiled once per Flavour."""
