"""Stands in for SGLang, whose kernels need a GPU."""

__version__ = "0.5.9"
