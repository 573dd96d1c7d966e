"""Where a process's segment is written: the trace's folder, or node-local first.

A trace in a folder on a network file system would make each flush a small write to a shared
server. There the segment grows on a local disk; a note in the folder says where, and closing moves
it in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import tempfile

from rotameter.profiler.live.proc import Own, read_proc
from rotameter.profiler.live.sink import FileSink

__all__ = ["LostSink", "SegmentSink", "is_shared_filesystem", "make_folder", "open_sink"]

_SHARED = """nfs nfs4 lustre gpfs mmfs beegfs beegfs_nodev ceph cifs smb smb2 smb3 smbfs afs 9p
    glusterfs pvfs2 orangefs panfs ocfs2 gfs2 pfs daos dvs wekafs quobyte virtiofs ncpfs coda davfs
    juicefs vboxsf"""
SHARED = frozenset(_SHARED.split())
# Block devices through FUSE are local; the rest of FUSE is somebody's network.
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.lxcfs", "fuse.mergerfs"})


def _unescape(text: str) -> str:
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text


def is_shared_filesystem(path: str, mounts_text: str | None = None) -> bool:
    r"""Tell whether a path lies on a network file system.

    Parameters
    ----------
    path : str
        It need not exist.
    mounts_text : str, optional
        The text of /proc/mounts, by default the machine's own.

    Returns
    -------
    bool
        False where mounts cannot be read.

    Examples
    --------
    >>> mounts = "/dev/sda1 / ext4 rw 0 0\nserver:/x /scratch nfs4 rw 0 0\n"
    >>> is_shared_filesystem("/scratch/run.rmt", mounts), is_shared_filesystem("/tmp", mounts)
    (True, False)
    """
    if mounts_text is None:
        mounts_text = read_proc("/proc/mounts", 1 << 24)
        if mounts_text is None:
            return False
        path = os.path.realpath(path)
    path = os.path.abspath(path)
    longest, kind = -1, ""
    for line in mounts_text.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescape(fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is seen.
        if inside and len(point) >= longest:
            longest, kind = len(point), fields[2].lower()
    if kind.startswith("fuse."):
        return kind not in LOCAL_FUSE
    return kind in SHARED


def make_folder(path: str) -> None:
    """Make a folder, and those above it, that only the user may enter.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        os.makedirs(above, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


class LostSink:
    """Stands in where nothing can be written: every frame is refused, hence counted as dropped."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        self.own = Own()
        self.path = ""

    def write(self, frames: bytes) -> None:
        """Refuse."""
        raise self.error

    def close(self) -> None:
        """Nothing is held."""


class SegmentSink:
    """A segment file whose writes are known as the tracer's own; spooled if asked for.

    Parameters
    ----------
    path : str
        The segment's place in the trace's folder.
    spool : str, optional
        A local folder to write it in first.

    Raises
    ------
    OSError
        If no file can be made (``FileExistsError`` if there is one).
    """

    def __init__(self, path: str, spool: str | None = None) -> None:
        self.path = path
        self.own = Own()
        self._note: str | None = None
        if spool is not None:
            # The name is claimed first, or two processes could take the same one.
            self._note = path.removesuffix(".seg") + ".spool"
            self._claim(path, os.path.join(spool, os.path.basename(path)))
            path = os.path.join(spool, os.path.basename(path))
        self.own.busy += 1
        try:
            self._file = FileSink(path)
        except OSError:
            self._forget()
            raise
        finally:
            self.own.busy -= 1

    def _claim(self, path: str, place: str) -> None:
        if os.path.exists(path):
            raise FileExistsError(path)
        assert self._note is not None
        fd = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, json.dumps({"path": place, "host": platform.node()}).encode())
        finally:
            os.close(fd)

    def _forget(self) -> None:
        if self._note is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._note)

    def write(self, frames: bytes) -> None:
        """Append frames; a task that looks at the counters meanwhile is told so."""
        own, size = self.own, len(frames)
        own.busy += 1
        own.writing += size
        try:
            self._file.write(frames)
            own.written += size
        finally:
            own.writing -= size
            own.busy -= 1

    @property
    def size_bytes(self) -> int:
        """Length of the segment now, in bytes."""
        return self._file.size_bytes

    def rewrite(self, at: int, frames: bytes) -> None:
        """Write over what lies at an offset (bytes)."""
        own, size = self.own, len(frames)
        own.busy += 1
        own.writing += size
        try:
            self._file.rewrite(at, frames)
            own.written += size
        finally:
            own.writing -= size
            own.busy -= 1

    def close(self) -> None:
        """Close the file and bring it into the trace's folder."""
        self._file.close()
        if self._note is None or self._file.path == self.path:
            return
        spooled = self._file.path
        partial = f"{self.path}.part"
        try:
            shutil.copyfile(spooled, partial)
            os.chmod(partial, 0o600)
            os.replace(partial, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            return  # the note still says where it is
        with contextlib.suppress(OSError):
            os.unlink(spooled)
            os.rmdir(os.path.dirname(spooled))
        self._forget()


def _spool_folder(folder: str) -> str | None:
    base = tempfile.gettempdir()
    if is_shared_filesystem(base):
        return None
    user = os.getuid() if hasattr(os, "getuid") else 0
    home = os.path.join(base, f"rotameter-{user}")
    digest = hashlib.sha256(os.path.abspath(folder).encode("utf-8", "surrogateescape"))
    place = os.path.join(home, digest.hexdigest()[:16])
    try:
        make_folder(home)
        if os.lstat(home).st_uid != user:
            return None  # somebody else's
        make_folder(place)
    except OSError:
        return None
    return place


def open_sink(folder: str, stem: str) -> SegmentSink:
    """Open ``<folder>/segments/<stem>-<n>.seg`` with the first free n.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    segments = os.path.join(folder, "segments")
    make_folder(folder)
    make_folder(segments)
    spool = _spool_folder(folder) if is_shared_filesystem(folder) else None
    for number in range(1_000):
        try:
            return SegmentSink(os.path.join(segments, f"{stem}-{number}.seg"), spool)
        except FileExistsError:
            continue
    raise OSError(f"no free segment name {stem} in {segments}")
