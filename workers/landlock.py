"""Giving up the file system and the network for good, by Linux's Landlock, without any privilege.

A second wall behind SQLite's authorizer: even code that broke out of SQLite could not create,
change, rename, remove or execute a file, list a directory, or open a TCP connection. Reading files
stays possible, for the databases are named only later. Kernels before 5.13 know no Landlock, and
some are built without; the walls before it stand there alone. Standard library only.

Source of the numbers: linux/landlock.h and the kernel's document userspace-api/landlock.
"""

from __future__ import annotations

import ctypes
import os
import sys

CREATE_RULESET = 444
RESTRICT_SELF = 446
VERSION_FLAG = 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 3
REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = (
    (1, EXECUTE | WRITE_FILE | READ_DIR | REMOVE_AND_MAKE),
    (2, REFER),
    (3, TRUNCATE),
    (5, IOCTL_DEVICE),
)
"""Rights to files, with the version of the interface that first knew them."""
TCP_BIND_AND_CONNECT = 1 << 0 | 1 << 1
NETWORK_SINCE = 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64))


def give_up_files_and_network() -> int:
    """Apply what the kernel knows to this process; returns the version of its interface, 0 for
    none. It cannot be undone."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    version = int(libc.syscall(CREATE_RULESET, None, 0, VERSION_FLAG))
    if version < 1 or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return 0
    rules = _Ruleset(
        sum(right for since, right in FILE_RIGHTS if version >= since),
        TCP_BIND_AND_CONNECT if version >= NETWORK_SINCE else 0,
    )
    # The network field is unknown to older kernels, which accept a longer structure of zeros.
    ruleset = int(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0))
    if ruleset < 0:
        return 0
    try:
        return version if libc.syscall(RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)
