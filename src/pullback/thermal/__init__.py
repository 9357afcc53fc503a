"""Heat in a part while it is printed: meshes, toolpaths, materials. SI units: m, s, K, W, kg."""

from pullback.thermal.gcode import from_gcode
from pullback.thermal.heat import Heat, HeatState
from pullback.thermal.materials import Material, inconel_718, steel_316l, ti_6al_4v
from pullback.thermal.mesh import Mesh, block, frame, grid, printed, read_mesh
from pullback.thermal.toolpath import Toolpath, births, contour, follow, from_table, raster, stack
from pullback.thermal.vtk import write_vtk

__all__ = [
    "Heat",
    "HeatState",
    "Material",
    "Mesh",
    "Toolpath",
    "births",
    "block",
    "contour",
    "follow",
    "frame",
    "from_gcode",
    "from_table",
    "grid",
    "inconel_718",
    "printed",
    "raster",
    "read_mesh",
    "stack",
    "steel_316l",
    "ti_6al_4v",
    "write_vtk",
]
