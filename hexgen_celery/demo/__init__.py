"""A small original database with questions, gold SQL and recorded answers, to try things on."""

from hexgen_celery.demo.build import DemoFiles, build_demo

__all__ = ["DemoFiles", "build_demo"]
