"""Installs the four packages; pick TensorFlow by requirements.txt or requirements-thesis.txt."""

import pathlib

from setuptools import find_packages, setup

setup(
    name="deep-metric-learning",
    version="0.1.0",
    description="Deep metric learning in TensorFlow/Keras: CCP, generalised sum pooling, fair evaluation",
    long_description=pathlib.Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=find_packages(include=["common*", "gsp_dml*", "ccp_dml*", "experiments*"]),
    package_data={"experiments.reports": ["published/*.csv"], "experiments.site": ["style.css"]},
    install_requires=[
        "tensorflow>=2.15.1",
        "numpy>=1.26",
        "scipy>=1.11",
        "scikit-learn>=1.4",
        "absl-py>=2.0",
        "matplotlib>=3.8",
        "pillow>=10.3",
        "tqdm>=4.66",
    ],
    classifiers=["License :: OSI Approved :: MIT License", "Programming Language :: Python :: 3"],
)
