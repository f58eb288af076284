"""Sources of the official data sets: addresses, sizes, digests, file purposes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from common.downloads.archives import ARCHIVE_ENDINGS, Limits
from common.downloads.fingerprint import Fingerprint


@dataclass(frozen=True)
class SourceFile:
    """A published file.

    Args:
        name: of the file.
        becomes: its result, relative to the folder of all data: the folder extracted from an archive, or the place of a
            file used as it is.
        urls: addresses, in order; empty if it must be fetched by hand.
        published: the fingerprint to check it against.
        root: the folder inside an archive to extract.
        limits: the most that an archive may hold.
    """

    name: str
    becomes: str
    urls: tuple[str, ...] = ()
    published: Fingerprint = field(default_factory=Fingerprint)
    root: str = ""
    limits: Limits = field(default_factory=Limits)

    @property
    def is_archive(self) -> bool:
        """True if the file is to be extracted."""
        return self.name.endswith(ARCHIVE_ENDINGS) and not self.becomes.endswith(ARCHIVE_ENDINGS)

    @property
    def place(self) -> str:
        """The file's own path, relative to the folder of all data."""
        return self.name if self.is_archive else os.path.normpath(self.becomes)


@dataclass(frozen=True)
class Source:
    """Files that together form a data set.

    Args:
        title: of the release.
        page: its description, with its licence.
        files: all of them.
    """

    title: str
    page: str
    files: tuple[SourceFile, ...]


_IN_SHOP = "In-shop Clothes Retrieval Benchmark"
_STANFORD_CARS = "http://ai.stanford.edu/~jkrause"


def _source(title: str, page: str, *files: SourceFile) -> Source:
    return Source(title, page, files)


def _mnist_file(name: str, size: int, sha256: str) -> SourceFile:
    mirrors = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
    urls = tuple(f"{mirror}/{name}" for mirror in mirrors)
    return SourceFile(name, f"mnist/{name}", urls, Fingerprint(size, sha256))


# Sizes and SHA-256 are those that TensorFlow Datasets publishes in its url_checksums; MD5 those of the data sets' own
# pages and of torchvision. Several entries of one name are alternatives, the best first.
SOURCES: dict[str, tuple[Source, ...]] = {
    "cub200": (
        _source(
            "CUB-200-2011",
            "https://www.vision.caltech.edu/datasets/cub_200_2011/",
            SourceFile(
                "CUB_200_2011.tgz",
                "CUB_200_2011",
                (
                    "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                    "https://s3.amazonaws.com/fast-ai-imageclas/CUB_200_2011.tgz",
                ),
                Fingerprint(1150585339, "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081"),
                root="CUB_200_2011",
            ),
        ),
    ),
    "cars196": (
        _source(
            "Cars196",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            SourceFile("CARS196.zip", "cars196", ("http://ftp.cs.stanford.edu/cs/cvgl/CARS196.zip",), root="cars196"),
        ),
        _source(
            "Cars196, all images in one archive",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            SourceFile(
                "car_ims.tgz",
                "cars196/car_ims",
                (f"{_STANFORD_CARS}/car196/car_ims.tgz",),
                Fingerprint(md5="d5c8f0aa497503f355e17dc7886c3f14"),
                root="car_ims",
            ),
            SourceFile(
                "cars_annos.mat",
                "cars196/cars_annos.mat",
                (f"{_STANFORD_CARS}/car196/cars_annos.mat",),
                Fingerprint(md5="b407c6086d669747186bd1d764ff9dbc"),
            ),
        ),
        _source(
            "Stanford Cars with its development kit",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            SourceFile(
                "cars_train.tgz",
                "stanford_cars/cars_train",
                (f"{_STANFORD_CARS}/car196/cars_train.tgz",),
                Fingerprint(979269282, "512b227b30e2f0a8aab9e09485786ab4479582073a144998da74d64b801fd288"),
                root="cars_train",
            ),
            SourceFile(
                "cars_test.tgz",
                "stanford_cars/cars_test",
                (f"{_STANFORD_CARS}/car196/cars_test.tgz",),
                Fingerprint(977350468, "bffea656d6f425cba3c91c6d83336e4c5f86c6cffd8975b0f375d3a10da8e243"),
                root="cars_test",
            ),
            SourceFile(
                "car_devkit.tgz",
                "stanford_cars/devkit",
                ("https://ai.stanford.edu/~jkrause/cars/car_devkit.tgz",),
                Fingerprint(330960, "b97deb463af7d58b6bfaa18b2a4de9829f0f79e8ce663dfa9261bf7810e9accd"),
                root="devkit",
            ),
            SourceFile(
                "cars_test_annos_withlabels.mat",
                "stanford_cars/cars_test_annos_withlabels.mat",
                (f"{_STANFORD_CARS}/car196/cars_test_annos_withlabels.mat",),
                Fingerprint(185758, "790f75be8ea34eeded134cc559332baf23e30e91367e9ddca97d26ed9b895f05"),
            ),
        ),
    ),
    "sop": (
        _source(
            "Stanford Online Products",
            "https://cvgl.stanford.edu/projects/lifted_struct/",
            SourceFile(
                "Stanford_Online_Products.zip",
                "Stanford_Online_Products",
                ("http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",),
                Fingerprint(3083860082, "b04fa78210e69fab050ce73939550e1cd0f96890bdd98ec9fee732c3b756ef48"),
                root="Stanford_Online_Products",
            ),
        ),
    ),
    "inshop": (
        _source(
            "In-shop Clothes Retrieval Benchmark (DeepFashion)",
            "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
            SourceFile("img.zip", f"{_IN_SHOP}/Img/img", root="img"),
            SourceFile("list_eval_partition.txt", f"{_IN_SHOP}/Eval/list_eval_partition.txt"),
        ),
    ),
    "cifar10": (
        _source(
            "CIFAR-10, binary version",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            SourceFile(
                "cifar-10-binary.tar.gz",
                "cifar-10-batches-bin",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                Fingerprint(170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
                root="cifar-10-batches-bin",
            ),
        ),
    ),
    "cifar100": (
        _source(
            "CIFAR-100, binary version",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            SourceFile(
                "cifar-100-binary.tar.gz",
                "cifar-100-binary",
                ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
                Fingerprint(168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
                root="cifar-100-binary",
            ),
        ),
    ),
    "mnist": (
        _source(
            "MNIST",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            _mnist_file(
                "train-images-idx3-ubyte.gz",
                9912422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist_file(
                "train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
            ),
            _mnist_file(
                "t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
            ),
            _mnist_file(
                "t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
            ),
        ),
    ),
}
