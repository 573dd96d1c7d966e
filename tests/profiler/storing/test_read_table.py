from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rotameter.adapters.bandwidths import read_bandwidths
from rotameter.errors import BadInput

MIB = 2.0**20


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_the_spm_table(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "operation,randomOffset,transferSize,aggregateFilesizeMB,numTasks,totalTime,numNodes,"
        "tasksPerNode,parallelism,trMiB,storageType\n"
        "write,0,4096.0,5120.0,32.0,11.4,4.0,8.0,128.0,448.7,nfs\n"
        "cp,0,4096.0,1024.0,2.0,-1,4.0,0.0,2.0,92.3,ssd-nfs\n"
        ",,,,,,,,,,\n"
        "read,0,4096.0,1024.0,2.0,-1,4.0,0.0,2.0,0,nfs\n",
    )
    table = read_bandwidths(path)
    assert table.op == ("write", "cp")
    assert table.store == ("nfs", "ssd-nfs")
    assert table.dims.tolist() == [[4096, 5120 * MIB, 4, 32], [4096, 1024 * MIB, 4, 2]]
    assert table.rate_mib_s.tolist() == [448.7, 92.3]
    assert table.rejects == ("line 4: no operation, store, rate", "line 5: no rate")


def test_synonyms_codes_units_and_separators(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "access;fs;xfersize;size_GiB;nodes;ppn;bw MB/s\n0;1.0;1m;2;4;8;100\n1;1;4 KiB;;2;;1\n",
    )
    table = read_bandwidths(path)
    assert table.op == ("write", "read")
    assert table.store == ("1", "1")
    assert table.dims[0].tolist() == [MIB, 2 * 2**30, 4, 32]
    assert table.dims[1, 0] == 4096
    assert np.isnan(table.dims[1, [1, 3]]).all()
    assert table.rate_mib_s[0] == pytest.approx(1e8 / MIB)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a,b\n1,2\n", "no column for op, store, rate"),
        ("", "no column for op, store, rate"),
        ("operation,storage,trMiB\nread,ssd,-3\n", "no usable row"),
    ],
)
def test_what_is_no_table_is_refused_in_words(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        read_bandwidths(write(tmp_path, text))


def test_a_missing_file_is_an_expected_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the bandwidth table"):
        read_bandwidths(tmp_path / "none.csv")


def test_bytes_that_are_no_text_do_not_raise(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"operation,storage,trMiB\nread,\xff\xfe,3\n\0\0\nread,ssd,5\n")
    assert len(read_bandwidths(path)) == 2
