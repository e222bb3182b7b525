"""Importing a command's modules without looking for garbage among them."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType


def import_quickly(name: str) -> ModuleType:
    """The module `name`.

    Why: modules are no garbage. Looking for some while they are imported, and through all of them
    once more when the process ends, takes a quarter of a short command's time.
    """
    if name in sys.modules:
        return sys.modules[name]
    collecting = gc.isenabled()
    gc.disable()
    try:
        module = importlib.import_module(name)
    finally:
        if collecting:
            gc.enable()
    gc.freeze()
    return module
