"""Object code kept on disk, so that a program is compiled once per machine and not once per run.

    key = cache.key_of(text, ...)
    objects = cache.load(key)      # None: not there, or not to be trusted
    cache.store(key, objects)

**Loading object code is executing it.** Write access to the cache is the right to run code as the
user. So the directory is made for its owner alone (0700, files 0600), and it is refused (with one
warning) and never read if it, a directory above it or a link on the way belongs to another user
(root's are trusted) or can be changed by one. Only its own plain files are read, not links.

A file is named by the hash of everything its code depends on, and carries a checksum: one that is
cut short, overwritten or half written is as good as absent, and replaced. Writers write to a file
of their own and rename it, so any number of processes may share the directory, and one that is
killed leaves at most a stray temporary file, which is swept up later. Nothing here raises: a cache
that cannot be used is no cache.

Where: $GRADWALK_CACHE (empty: no cache), else `gradwalk/objects` in the user's cache directory
($XDG_CACHE_HOME, ~/.cache, ~/Library/Caches, %LOCALAPPDATA%).
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import stat
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

FORMAT = 4  # of these files, and of what the compiler means by the same text: a part of every key
LIMIT = 256 * 2**20  # bytes in all; the least recently used files go first
_MAGIC = b"gradwalk"
_WORD = 8  # bytes of a length
_MOST_LINKS = 40  # on the way to the directory
_STRAY_AFTER = 3600.0  # seconds after which a temporary file is a stray
_SWEEP_EVERY = 32  # stores: the first one of a process looks at the size of the cache, too

_stores = 0


def key_of(*parts: str) -> str:
    """The key of objects that depend on exactly these texts."""
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))  # so that moving a letter between two parts is seen
        digest.update(data)
    return digest.hexdigest()[:40]


def directory() -> Path | None:
    """Where objects are kept; None without a cache. It may not exist yet."""
    given = os.environ.get("GRADWALK_CACHE")
    if given is not None:
        return Path(os.path.expanduser(given)) if given else None
    home = _user_cache()
    return home / "gradwalk" / "objects" if home else None


def load(key: str) -> list[bytes] | None:
    """The objects stored under this key, if they exist, are ours, and are complete."""
    place = directory()
    if place is None or not trusted(place):
        return None
    path = place / f"{key}.objects"
    try:
        with open(path, "rb", opener=_open_no_link) as file:
            facts = os.fstat(file.fileno())
            if not (_only_ours(facts) and stat.S_ISREG(facts.st_mode) and facts.st_size <= LIMIT):
                return None
            data = file.read()
    except (OSError, MemoryError):
        return None
    objects = _unpack(key, data)
    with suppress(OSError):
        if objects is None:
            path.unlink()  # the next store would replace it, but a sweep should not count it
        else:
            os.utime(path)  # used now: among the last to be removed
    return objects


def store(key: str, objects: Sequence[bytes]) -> None:
    """Keep these objects under this key; another writer of the same key writes the same."""
    global _stores
    place = directory()
    if place is None:
        return
    temporary = place / f"{key}.{os.getpid()}.{secrets.token_hex(4)}.temporary"
    try:
        if not trusted(place, make=True):
            return
        with open(temporary, "xb", opener=_open_private) as file:
            file.write(_pack(key, objects))
        os.replace(temporary, place / f"{key}.objects")
    except OSError:  # read-only, full, no such place: then it is compiled again next time
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return
    if _stores % _SWEEP_EVERY == 0:
        sweep(place)
    _stores += 1


def sweep(place: Path, limit: int = LIMIT, ending: str = ".objects") -> None:
    """Remove the least recently used files until `limit` bytes are left, and stray temporary files.

    Files that vanish meanwhile were removed by another process doing the same.
    """
    files: list[tuple[float, int, str]] = []
    now = time.time()
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                if entry.name.endswith(ending):
                    files.append((facts.st_mtime, facts.st_size, entry.path))
                elif entry.name.endswith(".temporary") and now - facts.st_mtime > _STRAY_AFTER:
                    os.unlink(entry.path)
    except OSError:
        return
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with suppress(OSError):
            os.unlink(path)
        total -= size


# -- files -------------------------------------------------------------------------------------


def _pack(key: str, objects: Sequence[bytes]) -> bytes:
    """magic, checksum of the rest, then key and objects, each after its length."""
    parts = [key.encode(), *objects]
    body = b"".join(len(part).to_bytes(_WORD, "little") + part for part in parts)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(key: str, data: bytes) -> list[bytes] | None:
    """The objects of a file, or None if it is not what was written under this key."""
    head = len(_MAGIC) + 32
    body = data[head:]
    if data[:head] != _MAGIC + hashlib.sha256(body).digest():
        return None
    parts, at = [], 0
    while at < len(body):
        begin = at + _WORD
        at = begin + int.from_bytes(body[at:begin], "little")
        parts.append(body[begin:at])
    return parts[1:] if parts and parts[0] == key.encode() else None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _open_no_link(path: str, flags: int) -> int:
    # Without waiting, should it be a pipe: then nothing is there.
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


# -- trust -------------------------------------------------------------------------------------


def _only_ours(facts: os.stat_result) -> bool:
    """Whether only this user can have written it (Windows: the profile's own rights say so)."""
    if not hasattr(os, "geteuid"):
        return True
    others = stat.S_IWGRP | stat.S_IWOTH
    return facts.st_uid == os.geteuid() and not facts.st_mode & others


def trusted(place: Path, make: bool = False) -> bool:
    """Whether the directory exists and only this user (or root) can put code into it; warns if not.

    With `make`, what is missing of it is created, once everything above it is trusted.
    """
    if not hasattr(os, "geteuid"):
        if make:
            place.mkdir(parents=True, exist_ok=True)
        return place.is_dir()
    here, links = Path(os.path.abspath(os.sep)), 0
    names = list(reversed(Path(os.path.abspath(place)).parts[1:]))
    try:
        facts = os.stat(here)
        while names:
            if not _unchangeable(facts):
                return _refuse(place, here)
            here /= names.pop()
            try:
                facts = os.lstat(here)
            except FileNotFoundError:
                if not make:
                    return False
                here.mkdir(mode=0o700, exist_ok=True)
                facts = os.lstat(here)
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return False  # they lead in a circle
                if not _of_ours_or_root(facts):
                    return _refuse(place, here)
                target = Path(os.path.join(here.parent, os.readlink(here)))
                names += reversed(target.parts[1:])
                here = Path(target.anchor)
                facts = os.stat(here)
    except OSError:
        return False
    if not stat.S_ISDIR(facts.st_mode):
        return False
    return _only_ours(facts) or _refuse(place, here)


def _of_ours_or_root(facts: os.stat_result) -> bool:
    return facts.st_uid in (os.geteuid(), 0)


def _unchangeable(facts: os.stat_result) -> bool:
    """Whether others cannot rename what is ours in this directory: /tmp is sticky for that."""
    others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return _of_ours_or_root(facts) and (not others or bool(facts.st_mode & stat.S_ISVTX))


def _refuse(place: Path, because: Path) -> bool:
    _warn_once(str(place), str(because))
    return False


@functools.cache
def _warn_once(place: str, because: str) -> None:
    warnings.warn(
        f"gradwalk does not use its cache of object code in {place}: {because} belongs to another "
        "user or others can write to it, and loading object code executes it. Programs are "
        f"compiled anew in each process. Fix: `chmod go-w {because}`, or set GRADWALK_CACHE to a "
        "directory of your own (empty: no cache).",
        RuntimeWarning,
        stacklevel=2,
    )


def _user_cache() -> Path | None:
    """The platform's directory for caches."""
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA")
            return Path(local) if local else Path.home() / "AppData" / "Local"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches"
        given = os.environ.get("XDG_CACHE_HOME", "")
        return Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:  # no home
        return None
