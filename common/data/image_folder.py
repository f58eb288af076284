"""Any folder of class folders: custom images, split by class with a seed."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from common.data.class_splits import random_class_split, random_family_split
from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_formats import is_image_name, left_out
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.data.regular_files import regular_status
from common.errors import InvalidInput, invalid, raise_all
from common.progress import write_notice

OWN_IMAGES = "images of your own"  # in a deviation: there are no official ones
_OF_SYSTEMS = (  # folders of thumbnails and of removed files: NAS disks, macOS, Windows, Linux, Lightroom
    *("@eadir", "@recycle", "#recycle", "#snapshot", "__macosx", "$recycle.bin", "system volume information"),
    *("lost+found", "*.lrdata"),
)


def load_image_folder(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    train_fraction: float = 0.5,
    problems: list[InvalidInput] | None = None,
    single_images: bool = False,
    skipped: list[InvalidInput] | None = None,
    exclude: Sequence[str] = (),
    by_family: bool = False,
) -> Dataset:
    """Load a folder of class folders with image files, at any depth.

    Classes are in the order of their paths, images in the order of their names, so the data set is the same on every
    file system. A random share of the classes trains, the others test. Links to folders and to images are followed,
    except those to a folder above themselves (its content is there already). Images are files with the ending of a
    supported format (see `image_formats`). If every class folder is in another folder (`Greek/alpha`), classes of one
    such folder are a family. Other files, and folders that a system keeps for itself (thumbnails of a NAS, recycle
    bins), are skipped and counted in a line on the standard error; hidden ones are skipped silently.

    Args:
        data_dir: the folder.
        cache_dir: not used.
        seed: of the split.
        train_fraction: share of the classes that train, in (0, 1).
        problems: a list that gets the errors of files, folders and classes, for a report on all of them; these files
            and folders are left out. None: the errors are raised.
        single_images: whether a training class may have one image; see `without_small_classes`.
        skipped: a list that gets the errors of images that are none; these are left out. None: as `problems`.
        exclude: patterns of files and folders to skip, such as `thumb_*` (a name) or `2019/raw` (a path below
            `data_dir`, with `/`); `*` and `?` stand for any characters, as in a shell.
        by_family: whether a family's classes are on one side of the split, and of each fold.

    Raises:
        InvalidInput: no folder, fewer than two classes, or a training class with a single image; it names the class. Or
            a folder that cannot be read, an image that is none (a pipe, a device, a link to nothing), or two classes
            that are one folder.
    """
    if data_dir is None or not os.path.isdir(data_dir):
        raise _invalid_folder(data_dir)
    found: list[InvalidInput] = []
    walk = _Walk(os.path.abspath(data_dir), exclude, found)
    files_of_class, ignored = _find_classes(walk, found if skipped is None else skipped)
    if len(files_of_class) < 2:
        classes = f"{data_dir} with {len(files_of_class)} class folders"
        raise_all([*found, _invalid_folder(f"{classes} ({ignored})" if ignored else classes)])
    if ignored:
        write_notice(f"{data_dir}: {ignored}")

    names = sorted(files_of_class)
    if by_family:
        families = _families(names)
        if families is None:
            received = f"{data_dir} with classes in no family"
            raise invalid("--by_family", received=received, expected="every class in a family's folder: FAMILY/CLASS")
        train_ids, test_ids = random_family_split(families, train_fraction, seed)
    else:
        train_ids, test_ids = random_class_split(len(names), train_fraction, seed)
    class_names = [names[class_id] for class_id in (*train_ids, *test_ids)]
    examples = _examples(files_of_class, class_names)
    is_training = examples.labels < len(train_ids)
    train = examples.subset(is_training)
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
        test=examples.subset(~is_training),
        class_names=readable_names,
        deviations=(f"folder: {OWN_IMAGES}, split by class with seed {seed}; there are no published figures",),
        folds_by_family=by_family,
    )


def find_image_files(folder: str, name: str = "folder of images", exclude: Sequence[str] = ()) -> list[tuple[str, str]]:
    """List image files at any depth, by path, each with its folder.

    Links are followed and files skipped as by `load_image_folder`.

    Args:
        folder: where to look.
        name: of the argument or flag that says so, for the error.
        exclude: patterns of files and folders to skip, as of `load_image_folder`.

    Returns:
        Absolute path, and the path of its folder relative to `folder` with `/` ("" for files in `folder` itself).

    Raises:
        InvalidInput: there is no such folder, no image in it, or a folder below it that cannot be read.
    """
    root = os.path.abspath(folder)
    found = []
    walk = _Walk(root, exclude, [])
    for directory, _, images in walk.folders(root):
        relative = walk.relative(directory)
        found += [(image.path, "" if relative == "." else _readable(relative)) for image in images]
    raise_all(walk.problems)
    ignored = walk.left_out()
    if not found:
        received = f"{folder} ({ignored})" if ignored else folder
        raise invalid(name, received=received, expected="a folder with image files in it, at any depth")
    if ignored:
        write_notice(f"{folder}: {ignored}")
    return found


def _find_classes(walk: _Walk, of_images: list[InvalidInput]) -> tuple[dict[str, FileNames], str]:
    """Return image files by class path, and a phrase for skipped ones.

    Files whose error `of_images` gets are skipped.
    """
    files_of_class: dict[str, FileNames] = {}
    class_of_folder: dict[tuple[int, int], str] = {}
    beside = 0
    for directory, identity, images in walk.folders(walk.root):
        class_name = walk.relative(directory)
        if class_name == "." or not images:
            beside += len(images)
            continue
        if identity in class_of_folder:
            walk.problems.append(
                invalid(
                    "class folders",
                    received=f"{class_of_folder[identity]} and {class_name}, which are one folder by a link",
                    expected="classes whose images are different",
                    fix="Take the link, or what it leads to, out of the data set.",
                )
            )
            continue
        paths = [image.path for image in images if _is_regular(image, of_images)]
        class_of_folder[identity] = class_name
        if paths:
            files_of_class[class_name] = FileNames(paths)
    in_no_class = [f"left out: {beside} image{'s' if beside > 1 else ''} in no class folder"] if beside else []
    return files_of_class, "; ".join(filter(None, [walk.left_out(), *in_no_class]))


def _is_regular(image: os.DirEntry, problems: list[InvalidInput]) -> bool:
    with contextlib.suppress(OSError):  # of a link that leads to itself, or of a disk; named below
        if image.is_file():
            return True
    try:
        regular_status(image.path)
    except InvalidInput as problem:
        problems.append(problem)
        return False
    return True


def _readable(name: str) -> str:
    """Return a folder's name as valid text; bytes outside UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class _Walk:
    """A visit of a folder and all folders below it.

    Args:
        root: absolute path of the folder.
        exclude: patterns of files and folders to skip.
        problems: takes an error for each folder that cannot be read.
    """

    def __init__(self, root: str, exclude: Sequence[str], problems: list[InvalidInput]) -> None:
        self.root, self.problems = root, problems
        self._exclude = exclude
        self._others: list[str] = []  # names of files that are no images
        self._of_systems: Counter[str] = Counter()
        self._excluded = 0

    def relative(self, path: str) -> str:
        """Return a path below the root with `/`; "." for the root."""
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def folders(self, directory: str, above: tuple = ()) -> Iterator[tuple[str, tuple[int, int], list[os.DirEntry]]]:
        """Visit a folder that lies in the folders `above`, and all below it.

        Yields of each: its path, its identity on the disk, and its images.
        """
        try:
            entries, identity = _entries(directory)
        except InvalidInput as problem:
            self.problems.append(problem)
            return
        if identity in above:
            return
        entries = [entry for entry in entries if not self._is_excluded(entry)]
        folders: list[os.DirEntry] = []
        files: list[os.DirEntry] = []
        for entry in entries:
            (folders if self._is_folder(entry) else files).append(entry)
        images = [entry for entry in files if is_image_name(entry.name)]
        self._others += [entry.name for entry in files if not is_image_name(entry.name)]
        if files:
            yield directory, identity, images
        for folder in folders:
            if any(fnmatch.fnmatchcase(folder.name.lower(), name) for name in _OF_SYSTEMS):
                self._of_systems[folder.name] += 1
            else:
                yield from self.folders(folder.path, (*above, identity))

    def left_out(self) -> str:
        """Count what was skipped, in one phrase; "" for nothing."""
        counts = [f"{_readable(name)} {count}" for name, count in sorted(self._of_systems.items())]
        total = self._of_systems.total()
        of_systems = f"left out: {total} system folder{'s' if total > 1 else ''} ({', '.join(counts)})"
        excluded = f"left out: {self._excluded} by --exclude"
        phrases = [left_out(self._others), total and of_systems, self._excluded and excluded]
        return "; ".join(str(each) for each in phrases if each)

    def _is_excluded(self, entry: os.DirEntry) -> bool:
        places = (entry.name, self.relative(entry.path)) if self._exclude else ()
        is_excluded = any(fnmatch.fnmatchcase(place, glob) for glob in self._exclude for place in places)
        self._excluded += is_excluded
        return is_excluded

    def _is_folder(self, entry: os.DirEntry) -> bool:
        """Check for a folder, or for an unreadable entry that may be one."""
        try:
            return entry.is_dir()
        except OSError as error:
            # A link that leads to itself is no folder. A file is named when it is read.
            return error.errno != errno.ELOOP and not is_image_name(entry.name)


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


def _families(names: Sequence[str]) -> np.ndarray | None:
    """Return the family of each class, if all are in folders of families."""
    above = [name.rpartition("/")[0] for name in names]
    return np.unique(above, return_inverse=True)[1] if all(above) else None


def _examples(files_of_class: dict[str, FileNames], class_names: list[str]) -> Examples:
    """Return the examples of all classes, one after the other."""
    files, families = [files_of_class[name] for name in class_names], _families(class_names)
    labels = np.repeat(np.arange(len(files)), [len(of_class) for of_class in files])
    return Examples(labels, paths=FileNames.joined(files), families=None if families is None else families[labels])


def _invalid_folder(received: object) -> InvalidInput:
    return invalid(
        "--data_dir",
        received=received,
        expected="a folder with at least two class folders, each with image files in it (CLASS/NAME.jpg)",
        fix=f"Data sets that need no download: {', '.join(NO_DOWNLOAD_NEEDED)}.",
    )
