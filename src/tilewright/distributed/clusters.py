"""What each launcher puts into the environment: a process's number, how many there are, the coordinator.

Sources: `tilewright launch`; slurm.schedmd.com/srun.html (output environment variables); the variables of Open MPI's
processes; those that Kubernetes' operators give (Kubeflow's JAXJob, indexed Jobs); Cloud TPU's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..core.support.errors import ArgumentError

Environment = Mapping[str, str]
PORTS = 4096  # the highest ports, of which a job takes one by its number
TPU_PORT = 8476


@dataclass(frozen=True)
class Place:
    """A process's place: the coordinator's address, how many processes there are, which it is, which here."""

    coordinator: str | None = None
    count: int | None = None
    index: int | None = None
    local: int | None = None


@dataclass(frozen=True)
class Cluster:
    """A kind of launcher: its name, the variables that tell that it is there, and how to read the rest."""

    name: str
    signs: tuple[str, ...]
    place: Callable[[Environment], Place]


def _number(e: Environment, *names: str) -> int | None:
    for name in names:
        if name in e:
            if not e[name].isdigit():
                raise ArgumentError(f"the variable {name}={e[name]!r} is to be a number", f"set {name} to one")
            return int(e[name])
    return None


def _port(job: str) -> int:
    return 65535 - PORTS + 1 + int(job) % PORTS


def _own(e: Environment) -> Place:
    return Place(e.get("TILEWRIGHT_COORDINATOR"), _number(e, "TILEWRIGHT_NUM_PROCESSES"),
                 _number(e, "TILEWRIGHT_PROCESS_ID"))  # fmt: skip


def _jax(e: Environment) -> Place:
    return Place(e.get("JAX_COORDINATOR_ADDRESS"), _number(e, "JAX_NUM_PROCESSES"), _number(e, "JAX_PROCESS_ID"))


def first_host(nodes: str) -> str:
    """The first of SLURM's list of nodes: `n[03-07,9],m` is `n03`.

    >>> first_host("gpu[03-07,9]-a,login"), first_host("one,two")
    ('gpu03-a', 'one')
    """
    name, found = re.match(r"([^\[,]*)(.*)", nodes).groups()  # type: ignore[union-attr]
    if not found.startswith("["):
        return name
    inside, after = re.match(r"\[([^\]]*)\]([^,]*)", found).groups()  # type: ignore[union-attr]
    return name + re.split(r"[-,]", inside)[0] + after


def _slurm(e: Environment) -> Place:
    nodes = e.get("SLURM_STEP_NODELIST") or e.get("SLURM_JOB_NODELIST")
    at = f"{first_host(nodes)}:{_port(e['SLURM_JOB_ID'])}" if nodes else None
    return Place(at, _number(e, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), _number(e, "SLURM_PROCID"),
                 _number(e, "SLURM_LOCALID"))  # fmt: skip


def _open_mpi(e: Environment) -> Place:
    at = None
    uri = e.get("OMPI_MCA_orte_hnp_uri", "")  # 1531576320.0;tcp://10.96.0.1,10.148.0.1:34911
    host = re.search(r"tcp://([^,:]+)", uri) or re.search(r"tcp6://\[([^,\]]+)", uri)
    if host:
        at = f"{host[1]}:{_port(uri.split('.', 1)[0])}"
    return Place(at, _number(e, "OMPI_COMM_WORLD_SIZE"), _number(e, "OMPI_COMM_WORLD_RANK"),
                 _number(e, "OMPI_COMM_WORLD_LOCAL_RANK"))  # fmt: skip


def _kubernetes(e: Environment) -> Place:
    at, port = e.get("COORDINATOR_ADDRESS"), e.get("COORDINATOR_PORT")
    if at and port and ":" not in at:
        at = f"{at}:{port}"
    return Place(at, _number(e, "NUM_PROCESSES"), _number(e, "PROCESS_ID", "JOB_COMPLETION_INDEX"))


def _cloud_tpu(e: Environment) -> Place:
    hosts, worker = e["TPU_WORKER_HOSTNAMES"].split(","), _number(e, "TPU_WORKER_ID") or 0
    slices, number = _number(e, "MEGASCALE_NUM_SLICES") or 1, _number(e, "MEGASCALE_SLICE_ID") or 0
    first = e.get("MEGASCALE_COORDINATOR_ADDRESS", hosts[0]).split(":")[0]
    return Place(f"{first}:{TPU_PORT}", slices * len(hosts), number * len(hosts) + worker)


# In the order in which they are looked for.
CLUSTERS = {
    c.name: c
    for c in (
        Cluster("tilewright", ("TILEWRIGHT_COORDINATOR",), _own),
        Cluster("jax", ("JAX_COORDINATOR_ADDRESS",), _jax),
        Cluster("ompi", ("OMPI_COMM_WORLD_RANK",), _open_mpi),
        Cluster("slurm", ("SLURM_JOB_ID", "SLURM_PROCID"), _slurm),
        Cluster("tpu", ("TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"), _cloud_tpu),
        Cluster("k8s", ("KUBERNETES_SERVICE_HOST",), _kubernetes),
    )
}
ALIASES = {"gketpu": "tpu", "gcetpu": "tpu", "gke-tpu": "tpu", "kubernetes": "k8s"}


def detected(environment: Environment, method: str | None = None) -> tuple[str, Place]:
    """The launcher that started this process, and the process's place; all unknown where there is none.

    `method` names one of `CLUSTERS`, or is "deactivate".

    Raises:
      ArgumentError: there is no such method, or its variables are not there.

    >>> detected({"TILEWRIGHT_COORDINATOR": "host:1", "TILEWRIGHT_NUM_PROCESSES": "2", "TILEWRIGHT_PROCESS_ID": "1"})
    ('tilewright', Place(coordinator='host:1', count=2, index=1, local=None))
    """
    if method == "deactivate":
        return "none", Place()
    if method is not None:
        name = ALIASES.get(method, method)
        if name not in CLUSTERS:
            raise ArgumentError(f"cluster_detection_method={method!r}", f"one of {', '.join(CLUSTERS)}, deactivate")
        lacking = [sign for sign in CLUSTERS[name].signs if sign not in environment]
        if lacking:
            raise ArgumentError(f"cluster_detection_method={method!r}, and {', '.join(lacking)} is not set",
                                "start the processes by that launcher, or name another method")  # fmt: skip
        return name, CLUSTERS[name].place(environment)
    for name, cluster in CLUSTERS.items():
        if all(sign in environment for sign in cluster.signs):
            return name, cluster.place(environment)
    return "none", Place()
