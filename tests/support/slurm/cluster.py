"""Start and end a real Slurm with accounting, on three nodes of this machine, for tests.

What runs: ``munged``, MariaDB, ``slurmdbd``, ``slurmctld`` and ``slurmd``, all as the user of
the test, all in the foreground, with keys, sockets, data and logs in one temporary folder and
free ports of 127.0.0.1. Nothing of the machine's own Slurm, MUNGE or MariaDB is read or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.slurm.settings import ACCOUNT, CLUSTER, CONTROL_GROUPS, Settings

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sacct",
    "sacctmgr",
    "sbatch",
    "srun",
    "scontrol",
    "scancel",
    "squeue",
    "sinfo",
)
APT = (
    "apt-get install -y --no-install-recommends "
    "slurmctld slurmd slurmdbd slurm-client mariadb-server munge"
)
_PATH = os.pathsep.join(filter(None, [os.environ.get("PATH"), "/usr/sbin", "/sbin"]))


class CannotStart(Exception):
    """Slurm is not here, or one of its parts did not come up; the text says which and why."""


def missing_programs() -> list[str]:
    """Give the programs that a cluster needs and this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


def wait_for(what: str, ready: Callable[[], bool], timeout: float = 20.0) -> None:
    """Wait until ``ready``; raise :class:`CannotStart` when it takes too long."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise CannotStart(f"{what}: not within {timeout:.0f} s")
        time.sleep(0.1)


class Cluster:
    """A running Slurm; use :func:`running_cluster`."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(folder)
        self.folder = folder
        foreign = ("SLURM", "SACCT", "SBATCH", "SRUN", "SQUEUE", "MUNGE")
        own = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
        self.env = {
            **own,
            "PATH": _PATH,
            "SLURM_CONF": str(self.settings.config),
            "MYSQL_UNIX_PORT": str(folder / "database.socket"),
            "SBATCH_ACCOUNT": ACCOUNT,
            "SLURM_ACCOUNT": ACCOUNT,
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        self._daemons: list[tuple[str, subprocess.Popen[bytes]]] = []

    def call(self, *words: object, check: bool = True, timeout: float = 60.0) -> str:
        """Run a client command and give what it prints."""
        done = subprocess.run(
            [str(word) for word in words],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            error = done.stderr.decode(errors="replace").strip()
            raise CannotStart(f"{words[0]} {words[1] if len(words) > 1 else ''}: {error[-500:]}")
        return done.stdout.decode(errors="replace")

    def start(self) -> None:
        """Start every part, each when the one that it needs answers."""
        self.settings.write()
        self._start_munge()
        self._start_database()
        self._start_accounting()
        self._start_controller()

    def stop(self) -> None:
        """Cancel what runs, end the daemons in reverse order, then whatever they left."""
        with contextlib.suppress(CannotStart, subprocess.TimeoutExpired, OSError):
            if any(name == "slurmctld" for name, _ in self._daemons):
                self.call("scancel", "--user", self.settings.user, timeout=10)
        for _, daemon in reversed(self._daemons):
            _end(daemon)
        _end_strays(self.settings.config)
        for node in self.settings.nodes:
            _remove_control_groups(node)

    def log(self, name: str) -> str:
        """Give the last lines of a daemon's log."""
        path = self.folder / f"{name}.log"
        if not path.exists():
            return ""
        return "\n".join(path.read_text(errors="replace").splitlines()[-8:])

    def _daemon(self, name: str, *words: object) -> Callable[[], bool]:
        """Start a daemon; give a check that it still lives (raises with its log if not)."""
        command = [name, *(str(word) for word in words)]
        if shutil.which("setpriv"):  # it ends with us, even if we are killed
            command = ["setpriv", "--pdeathsig", "TERM", *command]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append((name, process))

        def lives() -> bool:
            if process.poll() is not None:
                raise CannotStart(f"{name} ended with {process.returncode}: {self.log(name)}")
            return True

        return lives

    def _await(self, name: str, lives: Callable[[], bool], *question: object) -> None:
        """Wait until ``question`` (a command that must succeed) is answered."""

        last: list[str] = []

        def answers() -> bool:
            lives()
            try:
                self.call(*question, timeout=5)
            except (CannotStart, subprocess.TimeoutExpired) as error:
                last[:] = [str(error)]
                return False
            return True

        try:
            wait_for(name, answers, timeout=25)
        except CannotStart as error:
            raise CannotStart(f"{error}: {last}; its log: {self.log(name)}") from None

    def _start_munge(self) -> None:
        words = [f"--socket={self.folder}/munge.socket", f"--key-file={self.folder}/munge.key"]
        words += [f"--{one}-file={self.folder}/munged.{one}" for one in ("pid", "seed")]
        words += [f"--log-file={self.folder}/munge.log", "--foreground", "--force"]
        words += ["--num-threads=2"]
        lives = self._daemon("munged", *words)
        self._await("munged", lives, "munge", "-S", self.folder / "munge.socket", "-n")

    def _start_database(self) -> None:
        defaults = f"--defaults-file={self.folder}/database.conf"
        words = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        self.call("mariadb-install-db", defaults, *words)
        lives = self._daemon("mariadbd", defaults)
        client = ["mariadb", "--no-defaults", f"--socket={self.folder}/database.socket", "-uroot"]
        self._await("mariadbd", lives, *client, "-e", "select 1")
        self.call(
            *client,
            "-e",
            f"create user slurm@localhost identified by '{self.settings.password}';"
            "grant all on slurm_acct.* to slurm@localhost;",
        )

    def _start_accounting(self) -> None:
        lives = self._daemon("slurmdbd", "-D")
        self._await("slurmdbd", lives, "sacctmgr", "-n", "list", "cluster")
        self.call("sacctmgr", "-i", "add", "cluster", CLUSTER)
        self.call("sacctmgr", "-i", "add", "account", ACCOUNT, "Description=tests")
        self.call("sacctmgr", "-i", "add", "user", self.settings.user, f"Account={ACCOUNT}")

    def _start_controller(self) -> None:
        lives = self._daemon("slurmctld", "-D", "-i")
        self._await("slurmctld", lives, "scontrol", "ping")
        all_live = [self._daemon("slurmd", "-D", "-N", node) for node in self.settings.nodes]

        def idle() -> bool:
            for lives in all_live:
                lives()
            return set(self.call("sinfo", "-h", "-o", "%t").split()) == {"idle"}

        wait_for("slurmd: nodes idle", idle)


def _end(process: subprocess.Popen[bytes], patience: float = 8.0) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _strays(config: Path) -> list[int]:
    """Give the processes that have our SLURM_CONF, and only those."""
    mark = b"SLURM_CONF=" + os.fsencode(config) + b"\0"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def _end_strays(config: Path) -> None:
    """End what the daemons started and did not end."""
    deadline = time.monotonic() + 5
    while (left := _strays(config)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _remove_control_groups(node: str) -> None:
    """Remove the groups of a node; one stays busy for a moment after its last process."""
    deadline = time.monotonic() + 5
    while (tops := list(CONTROL_GROUPS.glob(f"*/slurm_{node}"))) and time.monotonic() < deadline:
        for top in tops:
            inner = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
            for folder in [*inner, top]:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        time.sleep(0.05)


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Give a running cluster, and end it.

    Raises
    ------
    CannotStart
        If a program is missing or a part does not come up.
    """
    if missing := missing_programs():
        raise CannotStart(f"not installed: {', '.join(missing)}. To have it: {APT}")
    # Not pytest's folder: a socket's path must stay under 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rota-slurm-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        try:
            cluster.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
