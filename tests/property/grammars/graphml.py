"""GraphML of data-flow graphs: keys of several names and types, odd nodes, edges and numbers."""

from __future__ import annotations

from hypothesis import strategies as st

IMPORTER = "graphml"

_NAME = st.sampled_from(["a_taskid0", "a_taskid1", "b-2", "in.vcf", "out.gz", "x y", "", "é"])
_NUMBER = st.one_of(
    st.integers(0, 10**12).map(str),
    st.sampled_from(["nan", "1e999", "-5", "9" * 60, "x", "", "104.5", " 7 "]),
)
_TYPE = st.sampled_from(["task", "file", "Task", "data", "cloud", ""])
_VOLUME = st.sampled_from(["data_volume", "volume", "bytes", "weight"])


def _data(key: str, value: str) -> str:
    return f'<data key="{key}">{value}</data>'


_NODE = st.builds(
    lambda name, kind, size: f'<node id="{name}">{_data("d0", kind)}{_data("d1", size)}</node>',
    _NAME,
    _TYPE,
    _NUMBER,
)
_EDGE = st.builds(
    lambda a, b, key, volume, more: (
        f'<edge source="{a}" target="{b}"{more}>{_data(key, volume)}{_data("d3", "7")}</edge>'
    ),
    _NAME,
    _NAME,
    st.sampled_from(["d2", "d4", "d9"]),
    _NUMBER,
    st.sampled_from(["", "", "", ' directed="false"', ' id="e"']),
)
_OTHER = st.sampled_from(
    ["<hyperedge/>", "<desc>text</desc>", "<!-- c -->", "<port/>", "<node/>", "<edge/>", "text"]
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    items = st.lists(st.one_of(_NODE, _NODE, _EDGE, _EDGE, _OTHER), max_size=15)
    head = st.sampled_from(["<?xml version='1.0' encoding='utf-8'?>\n", "", "\n"])
    space = st.sampled_from([' xmlns="http://graphml.graphdrawing.org/xmlns"', ""])
    mode = st.sampled_from([' edgedefault="directed"', ' edgedefault="undirected"', ""])

    def build(head: str, space: str, volume: str, mode: str, items: list[str]) -> bytes:
        keys = (
            '<key id="d0" for="node" attr.name="type" attr.type="string"/>\n'
            '<key id="d1" for="node" attr.name="size" attr.type="long"/>\n'
            f'<key id="d2" for="edge" attr.name="{volume}" attr.type="long"/>\n'
            '<key id="d3" for="edge" attr.name="access_size" attr.type="long"/>\n'
            f'<key id="d4" for="all" attr.name="{volume}"><default>3</default></key>\n'
        )
        body = "\n".join(items)
        text = f"<graphml{space}>\n{keys}<graph{mode}>\n{body}\n</graph>\n</graphml>\n"
        return (head.lstrip("\n") + text).encode()

    made = st.builds(build, head, space, _VOLUME, mode, items)
    names = st.sampled_from(["g.graphml", "run_data_scale_2.0.graphml", "g.xml"])
    return st.tuples(names, made)
