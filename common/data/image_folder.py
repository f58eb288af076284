"""Any folder of class folders: custom images, split by class with a seed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from common.data.class_splits import random_class_split
from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_formats import is_image_name, left_out
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.data.regular_files import regular_status
from common.errors import InvalidInput, invalid, raise_all
from common.progress import write_notice

OWN_IMAGES = "images of your own"  # in a deviation: there are no official ones


def load_image_folder(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    train_fraction: float = 0.5,
    problems: list[InvalidInput] | None = None,
    single_images: bool = False,
    skipped: list[InvalidInput] | None = None,
) -> Dataset:
    """Load a folder of class folders with image files, at any depth.

    Classes are in the order of their paths, images in the order of their names, so the data set is the same on every
    file system. A random share of the classes trains, the others test. Links to folders and to images are followed,
    except those to a folder above themselves (its content is there already). Images are files with the ending of a
    supported format (see `image_formats`). Other files are skipped and counted in a line on the standard error; hidden
    ones are skipped silently.

    Args:
        data_dir: the folder.
        cache_dir: not used.
        seed: of the split.
        train_fraction: share of the classes that train, in (0, 1).
        problems: a list that gets the errors of files, folders and classes, for a report on all of them; these files
            and folders are left out. None: the errors are raised.
        single_images: whether a training class may have one image; see `without_small_classes`.
        skipped: a list that gets the errors of images that are none; these are left out. None: as `problems`.

    Raises:
        InvalidInput: no folder, fewer than two classes, or a training class with a single image; it names the class. Or
            a folder that cannot be read, an image that is none (a pipe, a device, a link to nothing), or two classes
            that are one folder.
    """
    if data_dir is None or not os.path.isdir(data_dir):
        raise _invalid_folder(data_dir)
    found: list[InvalidInput] = []
    files_of_class, ignored = _find_classes(os.path.abspath(data_dir), found, found if skipped is None else skipped)
    if len(files_of_class) < 2:
        classes = f"{data_dir} with {len(files_of_class)} class folders"
        raise_all([*found, _invalid_folder(f"{classes} ({ignored})" if ignored else classes)])
    if ignored:
        write_notice(f"{data_dir}: {ignored}")

    names = sorted(files_of_class)
    train_ids, test_ids = random_class_split(len(names), train_fraction, seed)
    class_names = [names[class_id] for class_id in (*train_ids, *test_ids)]
    train = _examples(files_of_class, class_names, 0, len(train_ids))
    readable_names = tuple(map(_readable, class_names))
    if not single_images:
        try:
            check_training_pairs(train, readable_names, f"training set of {data_dir}")
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
        class_names=readable_names,
        deviations=(f"folder: {OWN_IMAGES}, split by class with seed {seed}; there are no published figures",),
        kind="image_files",
    )


def find_image_files(folder: str, name: str = "folder of images") -> list[tuple[str, str]]:
    """List image files at any depth, by path, each with its folder.

    Links are followed and files skipped as by `load_image_folder`.

    Args:
        folder: where to look.
        name: of the argument or flag that says so, for the error.

    Returns:
        Absolute path, and the path of its folder relative to `folder` with `/` ("" for files in `folder` itself).

    Raises:
        InvalidInput: there is no such folder, no image in it, or a folder below it that cannot be read.
    """
    root = os.path.abspath(folder)
    found, others = [], []
    problems: list[InvalidInput] = []
    for directory, _, images, names in _folders_with_images(root, (), problems):
        relative = os.path.relpath(directory, root).replace(os.sep, "/")
        found += [(image.path, "" if relative == "." else _readable(relative)) for image in images]
        others += names
    raise_all(problems)
    ignored = left_out(others)
    if not found:
        received = f"{folder} ({ignored})" if ignored else folder
        raise invalid(name, received=received, expected="a folder with image files in it, at any depth")
    if ignored:
        write_notice(f"{folder}: {ignored}")
    return found


def _find_classes(
    root: str, problems: list[InvalidInput], of_images: list[InvalidInput]
) -> tuple[dict[str, FileNames], str]:
    """Return image files by class path below `root`, and a phrase for skipped files.

    Hidden folders are skipped, folders whose error `problems` gets, and files whose error `of_images` gets.
    """
    files_of_class: dict[str, FileNames] = {}
    class_of_folder: dict[tuple[int, int], str] = {}
    others: list[str] = []
    beside = 0
    for directory, identity, images, names in _folders_with_images(root, (), problems):
        class_name = os.path.relpath(directory, root).replace(os.sep, "/")
        others += names
        if class_name == "." or not images:
            beside += len(images)
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
        paths = [image.path for image in images if image.is_file() or _is_regular(image.path, of_images)]
        class_of_folder[identity] = class_name
        if paths:
            files_of_class[class_name] = FileNames(paths)
    in_no_class = [f"left out: {beside} image{'s' if beside > 1 else ''} in no class folder"] if beside else []
    return files_of_class, "; ".join(filter(None, [left_out(others), *in_no_class]))


def _is_regular(path: str, problems: list[InvalidInput]) -> bool:
    try:
        regular_status(path)
    except InvalidInput as problem:
        problems.append(problem)
        return False
    return True


def _readable(name: str) -> str:
    """Return a folder's name as valid text; bytes outside UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _folders_with_images(
    directory: str, above: tuple, problems: list[InvalidInput]
) -> Iterator[tuple[str, tuple[int, int], list[os.DirEntry], list[str]]]:
    """Visit `directory` and all folders below it.

    Yields of each: its path, its identity on the disk, its images, and the names of its other files.

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
    files = [entry for entry in entries if not entry.is_dir()]
    images = [entry for entry in files if is_image_name(entry.name)]
    if files:
        yield directory, identity, images, [entry.name for entry in files if not is_image_name(entry.name)]
    for folder in folders:
        yield from _folders_with_images(folder.path, (*above, identity), problems)


def _entries(directory: str) -> tuple[list[os.DirEntry], tuple[int, int]]:
    """Return a folder's visible entries, sorted by name, and its device and inode."""
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
    """Return the examples of the classes with labels `first` to `end - 1`."""
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
