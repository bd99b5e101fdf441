"""Why a file could not be saved, what is left, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_WHY = {
    errno.ENOSPC: ("the disk is full", "free some space there, or save to another disk"),
    errno.EDQUOT: (
        "your quota on this disk is used up",
        "remove files of yours there, or save to another disk",
    ),
    errno.EFBIG: (
        "the file would be larger than this disk or this process may write",
        "raise the limit (`ulimit -f`), save to another disk, or save in parts",
    ),
    errno.EROFS: ("this disk is read-only", "save to another folder"),
    errno.EACCES: (
        "you may not write to its folder",
        "save to a folder of yours, or ask for the right to write there",
    ),
    errno.EPERM: (
        "this file, or the link to it, is another user's",
        "save under another name, or to a folder of yours",
    ),
    errno.EISDIR: ("it is a folder", "name a file in it"),
    errno.ENAMETOOLONG: ("its name is too long", "choose a shorter one"),
    errno.ELOOP: ("its symbolic links lead in a circle", "remove the link, or save elsewhere"),
    errno.EBUSY: (
        "the system holds it, as a file that is mounted by itself",
        "mount its folder, or save to another name",
    ),
    errno.EIO: ("the disk failed", "save to another disk, and check this one"),
}


def explained(error: OSError, path: Path) -> OSError:
    """The error of a save: the same class and number, with the file, what is left, and a fix."""
    if error.errno is None:
        return error
    system = os.strerror(error.errno)
    why, fix = _WHY.get(error.errno, ("the system refuses", "save to another folder"))
    folder = os.path.dirname(os.path.realpath(path))
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.isdir(folder):
        why, fix = f"there is no folder {folder}", "create it first, or name another"
    left = "The file saved before is unchanged" if os.path.isfile(path) else "Nothing was written"
    return OSError(error.errno, f"{why} ({system}). {left}. Fix: {fix}", str(path))
