"""Kept for tools that ask for it; pyproject.toml has everything."""

from setuptools import setup

setup()
