"""Ship the live half by value: it runs where rotameter is absent, on any Python 3.11 or later.

:class:`Shipment` holds the sources of the live half. :class:`ShippedScheduler`,
:class:`ShippedWorker` and :class:`ShippedNanny` are plug-ins that pickle into built-ins only:
text, compressed sources and a mapping. Where they are unpickled, a short boot program uses the
installed package if its live sources are the same (so that ``rm.span`` inside a task joins), and
otherwise runs the shipped sources as a private package. Boot never raises: what fails there gives
a plug-in that does nothing, because a plug-in that cannot be unpickled stops its worker.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import json
import pkgutil
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from distributed.diagnostics.plugin import NannyPlugin, SchedulerPlugin, WorkerPlugin

__all__ = ["Shipment", "ShippedNanny", "ShippedScheduler", "ShippedWorker", "shipment"]

_PACKAGES = ("rotameter.profiler.live", "rotameter.profiler.probes")
_MODULES = (
    "rotameter.errors",
    "rotameter.profiler.schema",
    "rotameter.adapters.dask._compat",
    "rotameter.adapters.dask.deaths",
    "rotameter.adapters.dask.early",
    "rotameter.adapters.dask.hub",
    "rotameter.adapters.dask.leave",
    "rotameter.adapters.dask.names",
    "rotameter.adapters.dask.nanny_plugin",
    "rotameter.adapters.dask.origin",
    "rotameter.adapters.dask.scheduler_events",
    "rotameter.adapters.dask.scheduler_plugin",
    "rotameter.adapters.dask.sites",
    "rotameter.adapters.dask.slots",
    "rotameter.adapters.dask.tally",
    "rotameter.adapters.dask.transport",
    "rotameter.adapters.dask.unrunnable",
    "rotameter.adapters.dask.worker_attempts",
    "rotameter.adapters.dask.worker_core",
    "rotameter.adapters.dask.worker_flows",
    "rotameter.adapters.dask.worker_plugin",
    "rotameter.adapters.dask.worker_samples",
)

# Runs on the other side, with nothing of ours importable there. It is text so that no code object
# (which is bound to one Python version) travels.
_BOOT = r'''
def boot(payload):
    import hashlib, importlib, importlib.abc, importlib.machinery, importlib.util
    import json, re, sys, zlib
    from distributed.diagnostics.plugin import NannyPlugin, SchedulerPlugin, WorkerPlugin

    kind = {"scheduler": SchedulerPlugin, "worker": WorkerPlugin, "nanny": NannyPlugin}
    base = kind[payload["role"]]

    class Nothing(base):
        """Stands in where the tracer could not start."""
        name = payload["name"]
        idempotent = True

        def __init__(self, reason):
            self.reason = reason

        async def start(self, scheduler):
            pass

        def setup(self, worker=None, nanny=None):
            try:
                (worker or nanny).log_event(
                    "rotameter-not-started", {"role": payload["role"], "reason": self.reason}
                )
            except Exception:
                pass

        def teardown(self, worker=None, nanny=None):
            pass

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        """Imports the private package from the shipped sources."""

        def __init__(self, package, sources):
            self.package = package
            self.sources = sources
            self.parents = {""}
            for name in sources:
                while "." in name:
                    name = name.rpartition(".")[0]
                    self.parents.add(name)

        def short(self, fullname):
            if fullname == self.package:
                return ""
            head = self.package + "."
            return fullname[len(head):] if fullname.startswith(head) else None

        def find_spec(self, fullname, path=None, target=None):
            short = self.short(fullname)
            if short is None or not (short in self.sources or short in self.parents):
                return None
            return importlib.machinery.ModuleSpec(
                fullname, self, is_package=short in self.parents
            )

        def create_module(self, spec):
            return None

        def get_source(self, fullname):
            return self.sources.get(self.short(fullname), "")

        def exec_module(self, module):
            source = self.get_source(module.__name__)
            exec(compile(source, "<%s>" % module.__name__, "exec"), module.__dict__)

    def installed(names, digest):
        if importlib.util.find_spec("rotameter") is None:
            return False
        seen = hashlib.sha256()
        for name in sorted(names):
            spec = importlib.util.find_spec("rotameter." + name)
            if spec is None or not hasattr(spec.loader, "get_source"):
                return False
            seen.update((name + "\0" + spec.loader.get_source(spec.name) + "\0").encode())
        return seen.hexdigest() == digest

    try:
        sources = json.loads(zlib.decompress(payload["sources"]))
        try:
            same = installed(sources, payload["digest"])
        except Exception:
            same = False
        package = "rotameter"
        if not same:
            package = "_rotameter_live_" + payload["digest"][:12]
            if package not in sys.modules:
                pattern = re.compile(r"^(\s*(?:from|import) )rotameter\.", re.MULTILINE)
                rewritten = {
                    name: pattern.sub(r"\g<1>" + package + ".", text)
                    for name, text in sources.items()
                }
                sys.meta_path.insert(0, Finder(package, rewritten))
        module = importlib.import_module(package + "." + payload["module"])
        return getattr(module, payload["class"])(dict(payload["config"], by_value=not same))
    except Exception as error:
        return Nothing("%s: %s" % (type(error).__name__, str(error)[:8000]))
'''
_EXPRESSION = "(exec(code, scope), scope['boot'](payload))[1]"


class Shipment:
    """The sources of the live half and their digest.

    Parameters
    ----------
    sources : mapping
        Module name below ``rotameter.`` → source text.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        digest = hashlib.sha256()
        for name in sorted(sources):
            digest.update(f"{name}\0{sources[name]}\0".encode())
        self.digest = digest.hexdigest()
        self.packed = zlib.compress(json.dumps(dict(sources)).encode(), 6)
        self.modules = tuple(sorted(sources))

    def reduce(
        self, role: str, name: str, target: str, config: Mapping[str, Any]
    ) -> tuple[Any, tuple[str, dict[str, Any]]]:
        """Give what a plug-in's ``__reduce__`` returns, made of built-ins only."""
        module, _, klass = target.partition(":")
        payload = {
            "role": role,
            "name": name,
            "sources": self.packed,
            "digest": self.digest,
            "module": module,
            "class": klass,
            "config": dict(config),
        }
        return eval, (_EXPRESSION, {"code": _BOOT, "scope": {}, "payload": payload})


def _source_of(name: str) -> str:
    spec = importlib.util.find_spec(name)
    loader = spec.loader if spec is not None else None
    source = loader.get_source(name) if isinstance(loader, importlib.abc.InspectLoader) else None
    if source is None:
        raise ImportError(f"no source text for {name}")
    return source


@cache
def shipment() -> Shipment:
    """Collect the live half's sources from this installation.

    Examples
    --------
    >>> "profiler.live.segment" in shipment().modules
    True
    """
    names = list(_MODULES)
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        names.append(package)
        names += [f"{package}.{info.name}" for info in pkgutil.iter_modules(places)]
    return Shipment({name.partition(".")[2]: _source_of(name) for name in names})


class _Shipped:
    """What the three shipped plug-ins share: they pickle by value."""

    role = ""
    target = ""
    idempotent = True

    def __init__(self, name: str, config: Mapping[str, Any], cargo: Shipment | None = None) -> None:
        self.name = name
        self.config = dict(config)
        self.cargo = cargo or shipment()

    def __reduce__(self) -> tuple[Any, tuple[str, dict[str, Any]]]:
        return self.cargo.reduce(self.role, self.name, self.target, self.config)


class ShippedScheduler(_Shipped, SchedulerPlugin):
    """Becomes our scheduler plug-in where it is unpickled."""

    role = "scheduler"
    target = "adapters.dask.scheduler_plugin:SchedulerTracer"


class ShippedWorker(_Shipped, WorkerPlugin):
    """Becomes our worker plug-in where it is unpickled."""

    role = "worker"
    target = "adapters.dask.worker_plugin:WorkerTracer"


class ShippedNanny(_Shipped, NannyPlugin):
    """Becomes our nanny plug-in where it is unpickled."""

    role = "nanny"
    target = "adapters.dask.nanny_plugin:NannyTracer"
