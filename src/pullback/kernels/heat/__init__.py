"""Heat in a part of hexahedra."""
