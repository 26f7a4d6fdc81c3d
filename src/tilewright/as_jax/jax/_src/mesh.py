"""`jax._src.mesh`, for libraries that read the mesh in force of a `with mesh:` block."""

from ....core.sharding.mesh_in_force import EMPTY
from ....sharding import AbstractDevice, AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, use_abstract_mesh
from ...missing import not_adapted
from ...thread_resources import thread_resources

empty_concrete_mesh = empty_abstract_mesh = EMPTY
get_concrete_mesh = get_mesh

__all__ = ["AbstractDevice", "AbstractMesh", "AxisType", "Mesh", "empty_abstract_mesh", "empty_concrete_mesh",
           "get_abstract_mesh", "get_concrete_mesh", "thread_resources", "use_abstract_mesh"]  # fmt: skip
__getattr__ = not_adapted("jax._src.mesh")
