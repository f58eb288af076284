"""Writes the small run folders, rows, models and index of `old/` with the code of an older commit.

    git worktree add --detach /tmp/older 6212cf6a
    cd /tmp/older && PYTHONPATH=. python CHECKOUT/tests/nets/write_old_files.py CHECKOUT/tests/nets/old

The working directory gives the code. `old_files_test.py` reads what is written.
"""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

RUNS = (
    *("--dataset=synthetic_tokens", "--methods=c2+gap,ms+ccp+gsp", "--recipe=thesis", "--chapter=3"),
    *("--budget=smoke", "--num_folds=2", "--seed=1"),
)
STOPPED = (
    *("--dataset=synthetic_tokens", "--methods=pnca+gap", "--budget=smoke", "--num_folds=2", "--fold=0"),
    *("--max_steps=1200", "--steps_per_evaluation=100", "--patience=12", "--checkpoint_seconds=0"),
)


def command(*words: str, cwd: pathlib.Path | None = None) -> subprocess.Popen:
    """Start a command of the checkout in the working directory."""
    environment = {"PYTHONPATH": str(pathlib.Path.cwd()), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"}
    return subprocess.Popen([sys.executable, "-m", *words], cwd=cwd, env=environment, stdout=subprocess.DEVNULL)


def write_runs(out: pathlib.Path) -> None:
    """Write finished runs of two methods, a study with their rows, and a run that was stopped at a checkpoint."""
    done = command("experiments.fair_eval", *RUNS, f"--runs_dir={out / 'runs'}", f"--record={out / 'study'}")
    assert done.wait() == 0
    stopped = command("experiments.fair_eval", *STOPPED, f"--runs_dir={out / 'stopped'}")
    while not list(out.glob("stopped/fair/*/*/*/checkpoint.previous.npz")):
        time.sleep(0.02)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait() == 143, "the run was finished before it was stopped"
    for path in [*out.rglob("tensorboard"), *out.glob("*/fair/*/reports")]:
        shutil.rmtree(path)


def write_metric_model(path: pathlib.Path) -> None:
    """Write a trained `MetricModel` with a memory and a miner, and `.npz` inputs with their embeddings."""
    import tensorflow as tf

    from common.losses import CrossBatchMemoryLoss, MultiSimilarityLoss, ProxyAnchorLoss
    from common.pooling import GlobalAveragePooling
    from common.training import EmbeddingHead, MetricModel
    from gsp_dml import GeneralizedSumPooling

    keras = tf.keras
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    images, labels = rng.uniform(0, 1, (16, 8, 8, 3)).astype(np.float32), np.repeat(np.arange(4), 4)
    losses = {
        "memory": CrossBatchMemoryLoss(MultiSimilarityLoss(), memory_size=16, embedding_dim=4, start_step=2),
        "proxies": ProxyAnchorLoss(num_classes=4, embedding_dim=4),
    }
    poolings = {"memory": GlobalAveragePooling(), "proxies": GeneralizedSumPooling(4, memory_size=8)}
    for name, loss in losses.items():
        inputs = keras.Input((8, 8, 3))
        maps = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
        network = keras.Model(inputs, EmbeddingHead(poolings[name], 4)(maps))
        model = MetricModel(network, loss)
        model.compile(keras.optimizers.Adam(1e-3))
        model.fit(images, labels, batch_size=8, epochs=2, verbose=0)
        model.save(path / f"{name}.keras")
        np.savez(path / f"{name}.npz", images=images, labels=labels, embeddings=model.predict(images, verbose=0))


def write_index(out: pathlib.Path) -> None:
    """Write six photos, an exported model of one convolution, the photos' embeddings and an index of five of them."""
    import tensorflow as tf
    from PIL import Image

    from common.deployment import ImagePreprocessing, deployable_model, load_embedder, save_model
    from common.pooling import GlobalAveragePooling
    from common.training import EmbeddingHead

    rng = np.random.default_rng(0)
    for number in range(6):
        path = out / "photos" / ("jay", "kea")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.uniform(0, 255, (3, 3, 3)).astype(np.uint8)).resize((18, 18), 2).save(path)
    tf.keras.utils.set_random_seed(0)
    inputs = tf.keras.Input((None, None, 3))
    network = tf.keras.Model(inputs, tf.keras.layers.Conv2D(8, 3, activation="relu")(inputs))
    network(np.zeros((1, 16, 16, 3), np.float32))
    parts = {"preprocessing": ImagePreprocessing(16, "center", name="preprocessing"), "input_shape": (16, 16, 3)}
    model = deployable_model(network, EmbeddingHead(GlobalAveragePooling(), 4), normalization="unit", **parts)
    save_model(model, out / "embedder.keras")
    photos = sorted((out / "photos").rglob("*.png"))
    embeddings = load_embedder(out / "embedder.keras").embed(photos)
    np.savez(out / "embeddings.npz", paths=[str(path.relative_to(out)) for path in photos], embeddings=embeddings)
    words = ("--index=index", "--model=embedder.keras", "--images=photos", "--root=.")
    shutil.move(photos[-1], out / "later.png")
    assert command("photo_search.search", "index", *words, cwd=out).wait() == 0
    shutil.move(out / "later.png", photos[-1])


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]).absolute()
    folder = pathlib.Path(tempfile.mkdtemp()) / "old"
    for part in ("models", "search"):
        (folder / part).mkdir(parents=True)
    write_runs(folder)
    write_metric_model(folder / "models")
    write_index(folder / "search")
    shutil.rmtree(
        folder / "search" / "index" / "digests", ignore_errors=True
    )  # a cache that names this machine's folders
    for path in [*folder.rglob("*lock"), *folder.rglob("README.md")]:
        path.unlink()
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(folder, target)
