"""CIFAR-10 and CIFAR-100 in the layouts of their releases, small, with images that say what they are."""

import numpy as np

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SHARED = ("flowers", "large_man-made_outdoor_things", "large_natural_outdoor_scenes", "trees")
COARSE_NAMES = sorted(["fish", *SHARED, *(f"super_class_{number:02d}" for number in range(15))])
FINE_NAMES = [f"class_{number:03d}" for number in range(100)]
COARSE_OF_FINE = (np.arange(100) * 7) % 20  # scattered, five to a super-class


def pixels(labels, first):
    """`[images, 32, 32, 3]`: red is the label, green a serial number, blue the row."""
    images = np.zeros((len(labels), 32, 32, 3), np.uint8)
    images[..., 0] = np.asarray(labels)[:, None, None]
    images[..., 1] = (np.arange(first, first + len(labels)) % 256)[:, None, None]
    images[..., 2] = np.arange(32)[:, None]
    return images


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def cifar10_parts():
    """File name: (images, labels); 20 images per training file and 30 for testing."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    parts = {}
    for index, name in enumerate(names):
        labels = np.arange(30 if name == "test_batch" else 20) % 10
        parts[name] = (pixels(labels, 20 * index), labels)
    return parts


def cifar100_parts(images_per_class=2):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(100), images_per_class))
    return {"train": (pixels(labels, 0), labels), "test": (pixels(np.arange(100), 200), np.arange(100))}


def write_binary(folder, parts, name_files, coarse=None):
    folder.mkdir()
    for name, (images, labels) in parts.items():
        columns = [labels[:, None], planes(images)]
        if coarse is not None:
            columns.insert(0, coarse[labels][:, None])
        (folder / f"{name}.bin").write_bytes(np.hstack(columns).astype(np.uint8).tobytes())
    for name, lines in name_files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def write_cifar10_binary(above):
    return write_binary(above / "cifar-10-batches-bin", cifar10_parts(), {"batches.meta.txt": [*CIFAR10_NAMES, ""]})


def write_cifar100_binary(above, **options):
    names = {"fine_label_names.txt": FINE_NAMES, "coarse_label_names.txt": COARSE_NAMES}
    return write_binary(above / "cifar-100-binary", cifar100_parts(**options), names, COARSE_OF_FINE)
