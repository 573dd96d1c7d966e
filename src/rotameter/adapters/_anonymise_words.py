"""Words that name nobody: what anonymising keeps of texts, as closed lists."""

from __future__ import annotations

import builtins

from rotameter.profiler.schema import EVENT_KINDS, INTERVAL_KINDS, KINDS, MEDIA, OUTCOMES

__all__ = ["COLUMN_WORDS", "ERRORS", "META_WORDS", "PACKAGES", "SCHEMES", "SUFFIXES", "words"]


def words(text: str) -> list[str]:
    """Split a text into its words."""
    return text.split()


_SOURCES = frozenset(
    words(
        "worker scheduler slot launcher process client table slurm nextflow snakemake dask_stream "
        "dask_report kineto chrome_trace wfformat parsl taskvine swf otlp nsys execution_trace "
        "darshan datalife dayu dftracer graphml spm python dask torch otel pbs lsf htcondor sge "
        "airflow prefect ray tracer begun"
    )
)
_OPS = frozenset(
    words(
        "read write get put send recv receive open close fetch load store delete spill "
        "unspill h2d d2h d2d p2p memcpy memset allreduce all_reduce allgather all_gather "
        "broadcast reduce reduce_scatter stat seek sync"
    )
)
_METRICS = frozenset(
    words(
        "cpu_percent cpu_ratio memory_bytes rss_bytes vmem_bytes vms_bytes uss_bytes "
        "pss_bytes peak_vmem_bytes managed_bytes spilled_bytes event_loop_s executing ready "
        "io_read_bytes io_write_bytes net_read_bytes net_write_bytes gpu_percent "
        "allocator_allocated_bytes allocator_reserved_bytes bandwidth_bytes_per_s "
        "gpu_memory_bytes power_w energy_j threads occupancy_s mean_load vol_ctxt inv_ctxt"
    )
)
COLUMN_WORDS: dict[str, frozenset[str]] = {
    "outcome": frozenset(OUTCOMES),
    "outcome_kind": frozenset(("reported", "inferred")),
    "peak_memory_kind": frozenset(KINDS),
    "peak_disk_kind": frozenset(KINDS),
    "io_kind": frozenset(KINDS),
    "gpu_kind": frozenset(KINDS),
    "energy_quality": frozenset(KINDS),
    "quality": frozenset(KINDS),
    "energy_meter": frozenset(("rapl", "nvml", "ipmi", "cray_pm", "estimate")),
    "medium": frozenset(MEDIA),
    "op": _OPS,
    "tier": frozenset(
        words(
            "memory disk device tmpfs ssd hdd nfs object_store pinned pageable managed none unknown"
        )
    ),
    "peer": frozenset(("host", "another device")),
    "metric": _METRICS,
    "source": _SOURCES,
    "action": frozenset(
        words("place hold resize scale drain move set_share keep spill recompute set_power")
    ),
    "kind": frozenset((*INTERVAL_KINDS, *EVENT_KINDS)),
    "end_reason": frozenset(("closed", "killed", "lost", "memory", "retired", "signal")),
}
"""Column → the words that stay; any other text in it gets a pseudonym."""

META_WORDS: dict[str, frozenset[str]] = {
    "origin": frozenset(("recorded", "imported", "simulated")),
    "engine": _SOURCES,
    "time_base": frozenset(("epoch_ns", "relative_ns")),
    "dask_local": frozenset(("synchronous", "threads", "processes", "unknown")),
    "status": frozenset(("ok", "failed", "interrupted", "unknown")),
    "role": frozenset(("client", "worker", "scheduler", "nanny", "process", "launcher")),
    "name": _SOURCES,
}
PACKAGES = frozenset(
    words(
        "python rotameter dask distributed numpy pandas pyarrow torch cuda nextflow snakemake "
        "slurm parsl ray prefect airflow schema cloudpickle msgpack"
    )
)
ERRORS = frozenset(
    [name for name in vars(builtins) if name.endswith(("Error", "Exception", "Interrupt", "Exit"))]
    + ["KilledWorker", "CancelledError", "TimeoutExpired", "CalledProcessError", "CommClosedError"]
)
SCHEMES = frozenset(
    words("file s3 s3a gs gcs az abfs abfss hdfs http https ftp tcp tls ucx inproc memory")
)
SUFFIXES = frozenset(
    words(
        "txt csv tsv json jsonl yaml yml xml html pdf md log out err parquet arrow feather "
        "orc avro h5 hdf5 hdf nc nc4 zarr npy npz pkl pickle mat root dat bin db sqlite gz "
        "bz2 xz zst zip tar tgz lz4 fastq fq fasta fa fai bam bai sam cram crai vcf bcf tbi "
        "bed gff gtf sra sff tif tiff png jpg jpeg gif svg fits dcm nii las laz shp geojson "
        "py sh r ipynb c cpp h java jar nf smk pt pth onnx safetensors ckpt model tmp bak "
        "part idx index done darshan swf"
    )
)
