"""Any folder of class folders: images of one's own, split by class with a seed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from common.data.class_splits import random_class_split
from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.data.regular_files import regular_status
from common.errors import InvalidInput, invalid, raise_all

OWN_IMAGES = "images of your own"  # in a deviation: there are no official ones
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def load_image_folder(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    train_fraction: float = 0.5,
    problems: list[InvalidInput] | None = None,
) -> Dataset:
    """Loads a folder in which a class is a folder with image files in it, at any depth.

    Classes are taken in the order of their paths, images in the order of their names, so that the data set is the same
    on every file system. A random share of the classes trains, the others test. Links to folders and to images are
    followed; one that leads back to a folder above itself is left out, since all that is below is there already.

    Args:
        data_dir: the folder.
        cache_dir: not used.
        seed: of the split.
        train_fraction: share of the classes that train, in (0, 1).
        problems: a list that gets the errors of files, folders and classes, for a report on all of them; these files
            and folders are left out. None: the errors are raised.

    Raises:
        InvalidInput: no folder, fewer than two classes, or a training class with a single image; it names the class. Or
            a folder that cannot be read, an image that is none (a pipe, a device, a link to nothing), or two classes
            that are one folder.
    """
    if data_dir is None or not os.path.isdir(data_dir):
        raise _invalid_folder(data_dir)
    found: list[InvalidInput] = []
    files_of_class = _find_classes(os.path.abspath(data_dir), found)
    if len(files_of_class) < 2:
        raise_all([*found, _invalid_folder(f"{data_dir} with {len(files_of_class)} class folders")])

    names = sorted(files_of_class)
    train_ids, test_ids = random_class_split(len(names), train_fraction, seed)
    class_names = [names[class_id] for class_id in (*train_ids, *test_ids)]
    train = _examples(files_of_class, class_names, 0, len(train_ids))
    try:
        check_training_pairs(train, class_names, f"training set of {data_dir}")
    except InvalidInput as problem:
        found.append(problem)
    if problems is None:
        raise_all(found)
    else:
        problems += found
    return Dataset(
        name="folder",
        train=train,
        test=_examples(files_of_class, class_names, len(train_ids), len(names)),
        class_names=tuple(class_names),
        deviations=(f"folder: {OWN_IMAGES}, split by class with seed {seed}; there are no published figures",),
        kind="image_files",
    )


def find_image_files(folder: str) -> list[tuple[str, str]]:
    """Image files at any depth of a folder, in the order of their paths, each with the folder that it is in.

    Links are followed as by `load_image_folder`; hidden files and folders are left out.

    Args:
        folder: where to look.

    Returns:
        Absolute path, and the path of its folder relative to `folder` with `/` ("" for files in `folder` itself).

    Raises:
        InvalidInput: there is no such folder, or one below it cannot be read.
    """
    root = os.path.abspath(folder)
    found = []
    problems: list[InvalidInput] = []
    for directory, _, images in _folders_with_images(root, (), problems):
        relative = os.path.relpath(directory, root).replace(os.sep, "/")
        found += [(image.path, "" if relative == "." else relative) for image in images]
    raise_all(problems)
    return found


def _find_classes(root: str, problems: list[InvalidInput]) -> dict[str, FileNames]:
    """Find the image files of every class, by the class folder's path relative to `root`.

    Hidden folders are left out, and files and folders whose error `problems` gets.
    """
    files_of_class: dict[str, FileNames] = {}
    class_of_folder: dict[tuple[int, int], str] = {}
    for directory, identity, images in _folders_with_images(root, (), problems):
        class_name = os.path.relpath(directory, root).replace(os.sep, "/")
        if class_name == ".":
            continue
        if identity in class_of_folder:
            problems.append(
                invalid(
                    "class folders",
                    received=f"{class_of_folder[identity]} and {class_name}, which are one folder by a link",
                    expected="classes whose images are different",
                    fix="Take the link, or what it leads to, out of the data set.",
                )
            )
            continue
        paths = [image.path for image in images if image.is_file() or _is_regular(image.path, problems)]
        class_of_folder[identity] = class_name
        if paths:
            files_of_class[class_name] = FileNames(paths)
    return files_of_class


def _is_regular(path: str, problems: list[InvalidInput]) -> bool:
    try:
        regular_status(path)
    except InvalidInput as problem:
        problems.append(problem)
        return False
    return True


def _folders_with_images(
    directory: str, above: tuple, problems: list[InvalidInput]
) -> Iterator[tuple[str, tuple[int, int], list[os.DirEntry]]]:
    """Folder, its identity on the disk, and its images, of `directory` and all below it.

    Args:
        directory: where to look.
        above: identities of the folders that it is in.
        problems: takes an error for each folder that cannot be read.
    """
    try:
        entries, identity = _entries(directory)
    except InvalidInput as problem:
        problems.append(problem)
        return
    if identity in above:
        return
    folders = [entry for entry in entries if entry.is_dir()]
    images = [entry for entry in entries if entry.name.lower().endswith(IMAGE_ENDINGS) and not entry.is_dir()]
    if images:
        yield directory, identity, images
    for folder in folders:
        yield from _folders_with_images(folder.path, (*above, identity), problems)


def _entries(directory: str) -> tuple[list[os.DirEntry], tuple[int, int]]:
    """What is in a folder and not hidden, in the order of names, and the folder's device and inode."""
    try:
        with os.scandir(directory) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
        status = os.stat(directory)
    except OSError as error:
        raise invalid(
            "folder of images",
            received=directory,
            expected=f"a folder that can be read ({error.strerror or error})",
            fix="Change its permissions, or take it out of the data set.",
        ) from error
    return entries, (status.st_dev, status.st_ino)


def _examples(files_of_class: dict[str, FileNames], class_names: list[str], first: int, end: int) -> Examples:
    """Examples of the classes with the labels `first` to `end - 1`."""
    files = [files_of_class[class_names[label]] for label in range(first, end)]
    labels = np.repeat(np.arange(first, end), [len(of_class) for of_class in files])
    return Examples(labels=labels, paths=FileNames.joined(files))


def _invalid_folder(received: object) -> InvalidInput:
    return invalid(
        "--data_dir",
        received=received,
        expected="a folder with at least two class folders, each with image files in it (CLASS/NAME.jpg)",
        fix=f"Data sets that need no download: {', '.join(NO_DOWNLOAD_NEEDED)}.",
    )
