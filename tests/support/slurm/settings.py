"""The configuration files of a small Slurm that lives in one folder and on loopback."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

CLUSTER = "rotatest"
ACCOUNT = "science"
CONTROL_GROUPS = Path("/sys/fs/cgroup")

# Times are short, so that a test need not wait: a requeued job starts again after cred_expire
# seconds (120 by default), a job over its limit is killed KillWait seconds after its SIGTERM.
# config_overrides lets the node have more cores than the machine: the jobs mostly sleep.
_SLURM = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=6
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin={tasks}
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams={memory_limit}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={accounting_port}
AccountingStoragePass={folder}/munge.socket
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
GresTypes=gpu
SlurmdParameters=config_overrides
SlurmctldDebug=info
SlurmdDebug=info
JobRequeue=1
KillWait=2
MinJobAge=300
MailProg=/bin/true
DefMemPerCPU=64
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
NodeName=DEFAULT RealMemory=4096 State=UNKNOWN
NodeName={a} NodeHostname={host} NodeAddr=127.0.0.1 Port={port_a} CPUs=4 Gres=gpu:2
NodeName={b} NodeHostname={host} NodeAddr=127.0.0.1 Port={port_b} CPUs=4
NodeName={c} NodeHostname={host} NodeAddr=127.0.0.1 Port={port_c} CPUs=1
PartitionName=DEFAULT MaxTime=60 DefaultTime=10 State=UP
PartitionName=short Nodes={a},{b} Default=YES
PartitionName=spot Nodes={c} PriorityTier=1
PartitionName=urgent Nodes={c} PriorityTier=9 PreemptMode=OFF
"""

_ACCOUNTING = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct
PidFile={folder}/slurmdbd.pid
DebugLevel=info
"""

_DATABASE = """\
[mysqld]
datadir={folder}/database
socket={folder}/database.socket
pid-file={folder}/database.pid
skip-networking
skip-name-resolve
user={user}
innodb_buffer_pool_size=128M
innodb_log_file_size=64M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=0
performance_schema=OFF
"""


# Two graphics cards that exist on paper, enough to be asked for and accounted. slurmd counts only
# those whose device file is there, and never opens it.
_CARDS = """\
NodeName={a} Name=gpu File=/dev/null
NodeName={a} Name=gpu File=/dev/zero
"""

# slurmd 22.05 loads a plugin for control groups even where nothing uses one ("disabled" came
# with 23.02); version 1's makes nothing until it is used.
_CONTROL_GROUPS = """\
CgroupPlugin=cgroup/v1
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
"""


def _free_ports(count: int) -> list[int]:
    """Give free ports of 127.0.0.1, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _can_limit_memory() -> bool:
    """Tell whether control groups (version 1) of the memory controller can be made here."""
    folder = CONTROL_GROUPS / "memory"
    return (folder / "memory.limit_in_bytes").exists() and os.access(folder, os.W_OK)


@dataclass(frozen=True)
class Settings:
    """Where a cluster lives, its nodes, and the ports that it uses.

    The names of the nodes are this cluster's alone: slurmd names its control groups after them.
    ``enforced`` tells whether the kernel holds jobs to their memory, so that one that wants more
    ends as OUT_OF_MEMORY; else Slurm's sampling kills it, and it ends as FAILED.
    """

    folder: Path
    user: str = field(default_factory=getpass.getuser)
    host: str = field(default_factory=lambda: socket.gethostname().split(".")[0])
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    mark: str = field(default_factory=lambda: secrets.token_hex(3))
    ports: tuple[int, ...] = field(default_factory=lambda: tuple(_free_ports(5)))
    enforced: bool = field(default_factory=_can_limit_memory)

    @property
    def config(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.folder / "slurm.conf"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Two nodes of the partition ``short``, then one of ``spot`` and ``urgent``."""
        return tuple(f"rota{self.mark}{letter}" for letter in "abc")

    def _values(self) -> dict[str, object]:
        return {
            **vars(self),
            **dict(zip("abc", self.nodes, strict=True)),
            **dict(zip(("port_a", "port_b", "port_c"), self.ports, strict=False)),
            "controller_port": self.ports[3],
            "accounting_port": self.ports[4],
            "cluster": CLUSTER,
            "tasks": "task/cgroup" if self.enforced else "task/none",
            "memory_limit": "NoOverMemoryKill" if self.enforced else "OverMemoryKill",
        }

    def write(self) -> None:
        """Write every configuration file, for the eyes of the user alone."""
        values = self._values()
        files = {
            "slurm.conf": _SLURM,
            "slurmdbd.conf": _ACCOUNTING,
            "database.conf": _DATABASE,
            "gres.conf": _CARDS,
            "cgroup.conf": _CONTROL_GROUPS,
        }
        for name, text in files.items():
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_text(text.format_map(values))
        (self.folder / "state").mkdir()
        for node in self.nodes:
            (self.folder / f"spool-{node}").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
