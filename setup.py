"""Installs the six packages; pick TensorFlow by requirements.txt or requirements-thesis.txt."""

import pathlib
import re

from setuptools import find_packages, setup

PACKAGES = ("common", "gsp_dml", "ccp_dml", "milbich_dml", "deep_metric_learning", "experiments", "photo_search")
ROOT = pathlib.Path(__file__).resolve().parent
# Beside it, requirements-torch-networks.txt is to be installed by `pip install --no-deps`, which an extra cannot say.
EXTRAS = (
    *("dev", "faiss", "gpu", "heif", "keras-hub", "mlflow", "mlflow-server", "onnx", "oracles", "parquet", "peers"),
    *("qdrant", "serve", "slurm", "torch", "tune", "wandb"),
)


def version() -> str:
    """`common.__version__`, without importing anything."""
    text = (ROOT / "common" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def requirements(extra: str) -> list[str]:
    """Return the requirements of a file and of the files that it names."""
    text = (ROOT / f"requirements-{extra}.txt").read_text(encoding="utf-8")
    lines = [requirement for line in text.splitlines() if (requirement := line.partition("#")[0].strip())]
    named = [name for line in lines for name in re.findall(r"^-r requirements-([\w-]+)\.txt$", line)]
    return [line for line in lines if not line.startswith("-r ")] + [
        one for name in named for one in requirements(name)
    ]


setup(
    name="deep-metric-learning",
    version=version(),
    description="Deep metric learning in TensorFlow/Keras: CCP, generalised sum pooling, fair evaluation",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The deep-metric-learning authors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=[
        *("deep metric learning", "image retrieval", "embeddings", "pooling", "optimal transport"),
        *("proxy", "TensorFlow", "Keras"),
    ],
    python_requires=">=3.10",
    packages=find_packages(include=[f"{package}*" for package in PACKAGES]),
    package_data={
        **{package: ["py.typed"] for package in PACKAGES},
        "common.backbones": ["imagenet/*"],
        "common.data": ["emoji_drawings/*"],
        "experiments.deployment": ["*.jinja"],
        "experiments.published": ["*.csv"],
        "common.pages": ["templates/*"],
        "experiments.site": ["templates/*"],
        "experiments.studies": ["*.csv"],
        "photo_search": ["templates/*"],
        "photo_search.page": ["page.*"],
    },
    entry_points={"console_scripts": ["dml = experiments.__main__:main"]},
    install_requires=[
        "tensorflow>=2.15.1",
        "keras>=2.15,!=3.0.*,!=3.1.*,!=3.2.*,!=3.3.*,!=3.4.*",  # these call no loss with references
        "tensorboard>=2.15",  # `tf.summary` needs it; TensorFlow 2.21 does not bring it
        "numpy>=1.26",
        "scipy>=1.11",
        "scikit-learn>=1.5",
        "absl-py>=2.0",
        "matplotlib>=3.8",
        "Jinja2>=3.1.6",  # older ones have known vulnerabilities
        "pillow>=12.3",
        "filelock>=3.30",  # with `lock_descriptor`; older ones follow links (CVE-2025-68146, CVE-2026-22701)
        "tqdm>=4.66.3",
    ],
    extras_require={extra: requirements(extra) for extra in EXTRAS},
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
