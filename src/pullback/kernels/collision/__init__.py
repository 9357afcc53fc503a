"""Where shapes touch, and how that moves with them; no contact model is known here."""
