"""Snakemake's log alone, as older versions wrote it."""

from __future__ import annotations

from tests.adapters.joining.test_snakemake_run import stamp

from rotameter.adapters.joining import _snakemake_log


def test_blocks_of_older_versions():
    log = _snakemake_log.read(f"""Provided cluster nodes: 2
{stamp(0)}

group job gg (jobs in lexicogr. order):

    {stamp(0)}
    checkpoint g1:
        output: out/g1.txt
        jobid: 6

Submitted group job 083ed0ae-7ac0 with external jobid '1004'.

{stamp(1)}
rule one:
    output: out/1.txt, out/2.txt
    jobid: 7
    shell:
        cat
        jobid: 99
Submitted job 7 with external jobid 'Submitted batch job 142'.
{stamp(4)}
Finished job 7.
{stamp(5)}
Finished job 6.
""".split("\n"))  # fmt: skip
    group, one = log.attempts
    assert (group.rule, group.batch, group.external) == ("g1", True, None)
    assert (one.outputs, one.external, one.jobid) == (["out/1.txt", "out/2.txt"], "142", "7")
    assert one.ended_ns - one.started_ns == 3 * 10**9
