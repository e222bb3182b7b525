"""What is asked of kernels of different ages (the confinement test asks the real one)."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from workers import landlock


@dataclass
class FakeKernel:
    """Answers the three calls; `asked` are the rights of the ruleset that was created."""

    version: int
    no_new_privileges: int = 0
    creates: bool = True
    restricts: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def syscall(self, number: int, *arguments: Any) -> int:
        if number == landlock.RESTRICT_SELF:
            return self.restricts
        if arguments[0] is None:
            return self.version
        rules = arguments[0]._obj
        self.asked.append((rules.handled_access_fs, rules.handled_access_net))
        return os.open(os.devnull, os.O_RDONLY) if self.creates else -1

    def prctl(self, *_arguments: int) -> int:
        return self.no_new_privileges


def applied(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_names, **_options: kernel)
    return landlock.give_up_files_and_network()


@pytest.mark.parametrize(
    ("version", "later_rights", "network"),
    [
        (1, 0, 0),
        (3, landlock.REFER | landlock.TRUNCATE, 0),
        (7, landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEVICE, 3),
    ],
)
def test_only_rights_that_the_kernel_knows_are_given_up(
    monkeypatch: pytest.MonkeyPatch, version: int, later_rights: int, network: int
) -> None:
    kernel = FakeKernel(version)
    assert applied(kernel, monkeypatch) == version
    ((files, sockets),) = kernel.asked
    assert files & ~later_rights == 0b1_1111_1111_1011
    assert files & later_rights == later_rights
    assert sockets == network


@pytest.mark.parametrize(
    "kernel",
    [
        FakeKernel(-1),
        FakeKernel(3, no_new_privileges=-1),
        FakeKernel(3, creates=False),
        FakeKernel(3, restricts=-1),
    ],
)
def test_without_landlock_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, kernel: FakeKernel
) -> None:
    assert applied(kernel, monkeypatch) == 0


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock.give_up_files_and_network() == 0
