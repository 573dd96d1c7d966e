"""Which model reads handwriting best, and on whose hand does it fail?

An ordinary Dask program in six stages, on two worker processes of one thread each:

1. write   the digits that scikit-learn ships become 32 Parquet shards, each image drawn again by
           many writers with a shift of ink and some noise
2. clean   read the shards, drop blank images, even out the ink
3. shuffle bring all images of one writer together
4. sweep   train models on folds of the writers
5. reduce  merge the confusion counts pair by pair and rank the models
6. judge   let the best model read many more images and name the writers it fails on

It knows nothing of rotameter. Run it as ``python examples/demo.py [FOLDER]`` or under
``rotameter run``. FOLDER keeps the shards; without it they go to a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

SHARDS = 32
ROWS = 8_000
WRITERS = 320
FOLDS = 4
PIXELS = [f"p{i:02d}" for i in range(64)]

MODELS: dict[str, list[dict[str, float]]] = {
    "ridge": [{"alpha": alpha} for alpha in (0.1, 1.0, 10.0)],
    "logistic": [{"C": c} for c in (0.01, 0.1, 1.0)],
    "forest": [{"n_estimators": n} for n in (10, 40, 120)],
    "neighbours": [{"n_neighbors": k} for k in (3, 9)],
}


def write_shard(folder: str, shard: int) -> str:
    """Draw one shard of images and write it."""
    rng = np.random.default_rng([2026, shard])
    images, labels = load_digits(return_X_y=True)
    pick = rng.integers(0, len(images), ROWS)
    writer = rng.integers(0, WRITERS, ROWS)
    ink = 0.6 + 0.8 * (writer / WRITERS)
    noise = rng.normal(0.0, 1.2, (ROWS, 64))
    pixels = np.clip(images[pick] * ink[:, None] + noise, 0, 16).astype("float32")
    frame = pd.DataFrame(pixels, columns=PIXELS)
    frame["writer"] = writer.astype("int32")
    frame["label"] = labels[pick].astype("int8")
    path = f"{folder}/shard-{shard:03d}.parquet"
    frame.to_parquet(path)
    return path


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop blank images and scale each to the same ink."""
    ink = frame[PIXELS].sum(axis=1)
    keep = ink > 40
    scaled = frame.loc[keep, PIXELS].div(ink[keep], axis=0).astype("float32") * 300
    return scaled.assign(writer=frame.loc[keep, "writer"], label=frame.loc[keep, "label"])


def centre_writers(frame: pd.DataFrame) -> pd.DataFrame:
    """Take each writer's mean image away; needs all images of a writer in one place."""
    means = frame.groupby("writer")[PIXELS].transform("mean").astype("float32")
    return frame.assign(**{p: frame[p] - means[p] for p in PIXELS})


def sample(frame: pd.DataFrame, every: int) -> pd.DataFrame:
    """Keep every n-th row."""
    return frame.iloc[::every]


def label_of(kind: str, knobs: dict[str, float]) -> str:
    """Name a model."""
    return f"{kind} " + ", ".join(f"{knob}={value:g}" for knob, value in knobs.items())


def build(kind: str, knobs: dict[str, float]) -> ClassifierMixin:
    """Make an untrained model."""
    if kind == "ridge":
        return RidgeClassifier(**knobs)
    if kind == "logistic":
        return LogisticRegression(max_iter=200, tol=1e-2, **knobs)
    if kind == "forest":
        return RandomForestClassifier(random_state=0, max_depth=14, **knobs)
    return KNeighborsClassifier(**knobs)


def train(kind: str, knobs: dict[str, float], table: pd.DataFrame, fold: int) -> dict[str, object]:
    """Train on all folds but one; count what is confused with what on that one."""
    held = table["writer"] % FOLDS == fold
    model = build(kind, knobs)
    model.fit(table.loc[~held, PIXELS].to_numpy("float64"), table.loc[~held, "label"].to_numpy())
    guess = model.predict(table.loc[held, PIXELS].to_numpy("float64"))
    confused = np.zeros((10, 10), dtype="int64")
    np.add.at(confused, (table.loc[held, "label"].to_numpy(), guess), 1)
    return {label_of(kind, knobs): confused}


def merge(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the counts of two partial results."""
    total = dict(left)
    for name, counts in right.items():
        total[name] = total[name] + counts if name in total else counts
    return total


def judge(
    kind: str, knobs: dict[str, float], table: pd.DataFrame, images: pd.DataFrame
) -> pd.Series:
    """Train on the table, read the images and give the share of errors of each writer."""
    model = build(kind, knobs)
    model.fit(table[PIXELS].to_numpy("float64"), table["label"].to_numpy())
    wrong = model.predict(images[PIXELS].to_numpy("float64")) != images["label"].to_numpy()
    return pd.Series(wrong).groupby(images["writer"].to_numpy()).mean()


def main(folder: str) -> None:
    """Run the six stages."""
    began = time.perf_counter()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        shards = client.gather(client.map(write_shard, [folder] * SHARDS, range(SHARDS)))

        images = dd.read_parquet(shards).map_partitions(clean)
        centred = images.shuffle(on="writer").map_partitions(centre_writers).persist()
        per_label = centred.groupby("label").size().compute()
        print(f"{per_label.sum():,} images of {WRITERS} writers")

        table = client.compute(centred.map_partitions(sample, every=40))
        models = {label_of(kind, knobs): (kind, knobs) for kind in MODELS for knobs in MODELS[kind]}
        parts = [
            client.submit(train, kind, knobs, table, fold)
            for kind, knobs in models.values()
            for fold in range(FOLDS)
        ]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [client.submit(merge, a, b) for a, b in pairs] + odd
        counts = parts[0].result()
        ranking = sorted(counts, key=lambda name: -np.trace(counts[name]))
        for name in ranking[:5]:
            share = np.trace(counts[name]) / counts[name].sum()
            print(f"{share:7.2%}  {name}")

        kind, knobs = models[ranking[0]]
        many = client.compute(centred.map_partitions(sample, every=4))
        errors = client.submit(judge, kind, knobs, table, many).result()
        worst = errors.sort_values(ascending=False).index[:5]
        print(f"{ranking[0]} fails most on writers {', '.join(map(str, worst))}")
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(scratch)
